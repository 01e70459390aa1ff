//! Reads and runs statements and commands until the user leaves.

use std::{fs, sync::Arc};

use anyhow::{Context, Result};
use datafusion::prelude::SessionContext;

use super::{
    command::{self, Command, Input},
    editor::{LineEditor, UserInput},
    pending::UnfinishedStatement,
};
use crate::{
    commands::sql::{output::OutputFile, script::Script, statement, view::View},
    errors,
    interrupt::Signals,
    outcome::Outcome,
};

/// The query for the user's tables, for `\d`.
const TABLES: &str = "SELECT table_schema AS schema, table_name AS name, table_type AS type \
                      FROM information_schema.tables WHERE table_schema <> 'information_schema' ORDER BY 1, 2";

/// The number of tables whose columns are completed. More would delay each prompt.
const COMPLETED_TABLES: usize = 100;

/// Reads and runs statements until the user leaves. Ctrl-C cancels a running statement and returns
/// to the prompt.
pub async fn run(ctx: SessionContext, mut view: View, overwrite: bool) -> Result<Outcome> {
    view.how_to_see_all = "\\maxrows inf";
    let mut shell = Shell { ctx, view, overwrite, output: None, interrupts: Signals::interrupts()? };
    let mut editor = LineEditor::new()?;
    println!("Annulus {} on DataFusion {}; \\? for help", env!("CARGO_PKG_VERSION"), datafusion::DATAFUSION_VERSION);
    let mut pending = UnfinishedStatement::default();
    loop {
        if pending.is_empty() {
            editor.complete(shell.names().await);
        }
        let line = match editor.read(pending.prompt())? {
            UserInput::Line(line) => line,
            UserInput::Interrupted => {
                pending.clear();
                continue;
            }
            UserInput::End => break,
        };
        let input = pending.add(&line);
        match &input {
            Ok(Input::Nothing) => {}
            Ok(Input::Statements(text)) => editor.remember(text)?,
            Ok(Input::Command(_)) | Err(_) => editor.remember(&line)?,
        }
        let done = match input {
            Ok(Input::Nothing) => Ok(()),
            Ok(Input::Command(Command::Quit)) => break,
            Ok(Input::Command(command)) => shell.command(command).await,
            Ok(Input::Statements(text)) => shell.statements(Script::typed(text)).await,
            Err(usage) => Err(anyhow::Error::msg(usage)),
        };
        if let Err(error) = done {
            eprintln!("error: {}", errors::text(&error));
        }
    }
    editor.close()?;
    Ok(Outcome::Done)
}

struct Shell {
    ctx: SessionContext,
    view: View,
    /// Whether results replace files.
    overwrite: bool,
    /// The file for the next result.
    output: Option<OutputFile>,
    interrupts: Signals,
}

impl Shell {
    /// Runs statements until one fails, or until Ctrl-C.
    async fn statements(&mut self, script: Script) -> Result<()> {
        self.interrupts.clear();
        let (ctx, view, output) = (self.ctx.clone(), self.view, self.output.take());
        // A separate task, so that Ctrl-C is noticed while the statement computes without a pause.
        let mut work = tokio::spawn(async move { statement::run_all(&ctx, &script, &view, output).await });
        tokio::select! {
            biased;
            _ = self.interrupts.next() => {
                work.abort();
                eprintln!("cancelled");
                Ok(())
            }
            done = &mut work => done.context("the statement panicked")?,
        }
    }

    async fn command(&mut self, command: Command) -> Result<()> {
        match command {
            Command::Quit => {}
            Command::Help => println!("{}", command::HELP),
            Command::Tables => self.statements(Script::typed(TABLES)).await?,
            Command::Columns(table) => self.statements(Script::typed(format!("DESCRIBE {table}"))).await?,
            Command::Include(file) => {
                let text = fs::read_to_string(&file);
                let text = text.with_context(|| format!("cannot read '{}'", file.display()))?;
                self.statements(Script { text, file: Some(file) }).await?;
            }
            Command::Output(file) => self.output = Some(OutputFile::create(file, None, self.overwrite).await?),
            Command::Format(format) => self.view.format = format,
            Command::MaxRows(rows) => self.view.max_rows = rows,
            Command::Timing(on) => {
                self.view.timing = on.unwrap_or(!self.view.timing);
                println!("timing is {}", if self.view.timing { "on" } else { "off" });
            }
        }
        Ok(())
    }

    /// Returns the names of tables and their columns.
    async fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let catalogs = Arc::clone(self.ctx.state().catalog_list());
        for catalog in catalogs.catalog_names().iter().filter_map(|name| catalogs.catalog(name)) {
            let schemas = catalog.schema_names();
            let own = schemas.iter().filter(|name| *name != "information_schema");
            for schema in own.filter_map(|name| catalog.schema(name)) {
                for name in schema.table_names().into_iter().take(COMPLETED_TABLES) {
                    if let Ok(Some(table)) = schema.table(&name).await {
                        names.extend(table.schema().fields().iter().map(|field| field.name().clone()));
                    }
                    names.push(name);
                }
            }
        }
        names.sort();
        names.dedup();
        names
    }
}
