//! The interactive shell: DataFusion's statements and `\` commands, with its line editor.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use datafusion::prelude::SessionContext;
use datafusion_cli::{
    command::{Command, OutputFormat},
    exec::exec_from_commands,
    helper::CliHelper,
    print_options::PrintOptions,
};
use rustyline::{Editor, error::ReadlineError, history::FileHistory};

use super::Outcome;
use crate::interrupt::Signals;

type LineEditor = Editor<CliHelper, FileHistory>;

/// Reads and runs statements until the user leaves. Ctrl-C cancels a running query and returns to the prompt.
pub async fn run(ctx: &SessionContext, print: &mut PrintOptions) -> Result<Outcome> {
    let mut interrupts = Signals::interrupts()?;
    let mut editor = LineEditor::new().context("cannot open the terminal")?;
    editor.set_helper(Some(CliHelper::new(&dialect(ctx), print.color)));
    let history = history_file();
    if let Some(file) = &history {
        // There is none the first time.
        editor.load_history(file).ok();
    }
    println!("Annulus {} on DataFusion {}; \\? for help", env!("CARGO_PKG_VERSION"), datafusion::DATAFUSION_VERSION);
    loop {
        match editor.readline("annulus> ") {
            Ok(line) => {
                editor.add_history_entry(line.trim_end())?;
                match line.strip_prefix('\\') {
                    Some(command) if !run_command(ctx, print, command, &mut interrupts).await => break,
                    Some(_) => {}
                    None => run_statements(ctx, print, line, &mut interrupts).await,
                }
                if let Some(helper) = editor.helper_mut() {
                    // A statement may have changed it.
                    helper.set_dialect(&dialect(ctx));
                }
            }
            Err(ReadlineError::Interrupted) => {
                if let Some(helper) = editor.helper() {
                    helper.reset_hint();
                }
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error).context("cannot read from the terminal"),
        }
    }
    if let Some(file) = &history {
        editor.save_history(file).with_context(|| format!("cannot save the history in '{}'", file.display()))?;
    }
    Ok(Outcome::Done)
}

/// Runs statements up to the first that fails, or until Ctrl-C.
async fn run_statements(ctx: &SessionContext, print: &PrintOptions, text: String, interrupts: &mut Signals) {
    interrupts.clear();
    tokio::select! {
        biased;
        _ = interrupts.next() => eprintln!("cancelled"),
        done = exec_from_commands(ctx, vec![text], print) => report(done),
    }
}

/// Runs a command of the shell; false if it is the one to leave.
async fn run_command(ctx: &SessionContext, print: &mut PrintOptions, text: &str, interrupts: &mut Signals) -> bool {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.parse::<Command>() {
        Ok(Command::Quit) => return false,
        Ok(Command::OutputFormat(None)) => println!("output format: {:?}", print.format),
        Ok(Command::OutputFormat(Some(option))) => match option.parse::<OutputFormat>() {
            Ok(format) => report(format.execute(print)),
            Err(()) => eprintln!("error: \\pset {option} is unknown; write \\pset format csv"),
        },
        Ok(command) => {
            interrupts.clear();
            tokio::select! {
                biased;
                _ = interrupts.next() => eprintln!("cancelled"),
                done = command.execute(ctx, print) => report(done),
            }
        }
        Err(()) => eprintln!("error: \\{text} is no command; \\? lists them"),
    }
    true
}

fn report(done: datafusion::error::Result<()>) {
    if let Err(error) = done {
        eprintln!("error: {error}");
    }
}

fn dialect(ctx: &SessionContext) -> datafusion::config::Dialect {
    ctx.copied_config().options().sql_parser.dialect
}

/// Where the shell keeps its history, if the system has a folder for that.
fn history_file() -> Option<PathBuf> {
    let folder = dirs::data_local_dir()?.join("annulus");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}
