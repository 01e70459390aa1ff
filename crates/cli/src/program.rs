//! The start and the end of a program of commands: parses the command line, runs the command that
//! it names, and turns the result into an exit code.

use std::{env, ffi::OsString, process::ExitCode, time::Duration};

use annulus_dataset::InputOptions;
use anyhow::Result;
use clap::{
    CommandFactory, Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};
use unicode_width::UnicodeWidthStr;

use crate::{errors, outcome::Outcome};

const SUCCESS: u8 = 0;
const FAILURE: u8 = 1;

/// The time for which freed memory is kept.
const KEPT: Duration = Duration::from_secs(10);

/// A command line whose commands can be run.
pub trait Program: Parser {
    /// Runs the command to its end.
    ///
    /// # Errors
    /// If the command fails.
    fn run(self) -> Result<Outcome>;
}

/// Runs a program with the arguments of this process. Errors go to standard error.
pub fn main<P: Program>() -> ExitCode {
    run::<P>(env::args_os()).into()
}

/// Lets this process keep freed memory for some seconds. Shells, workers, servers of queries and notebooks are idle for
/// as long, and then need it again.
pub fn keep_freed() {
    annulus_alloc::keep_freed(KEPT);
}

/// Runs a program with `arguments`, of which the first is its name, and returns its exit code. Errors go to
/// standard error.
pub fn run<P: Program>(arguments: impl Iterator<Item = OsString>) -> u8 {
    // Resets the signal handlers that libfabric's libraries installed when they were loaded. Must
    // come before this program sets its own.
    #[cfg(feature = "ofi")]
    annulus_roundabout::fabric::leave_signals();
    keep_freed();
    let program = match parse::<P>(arguments) {
        Ok(program) => program,
        Err(usage) => {
            // Help and the version are printed here, too, and succeed. A closed pipe cannot be reported.
            usage.print().ok();
            if let Some(option) = reading_option(&usage) {
                eprintln!("\n  tip: other options of reading are set by --read, as in --read {option}=VALUE");
            }
            return if usage.use_stderr() { FAILURE } else { SUCCESS };
        }
    };
    errors::name_options();
    match program.run() {
        Ok(Outcome::Done) => SUCCESS,
        Ok(Outcome::Differs) => FAILURE,
        Ok(Outcome::Interrupted(signal)) => 128 + signal,
        Err(error) if errors::is_closed_pipe(&error) => SUCCESS,
        Err(error) => {
            eprintln!("error: {}", errors::text(&error));
            FAILURE
        }
    }
}

/// Returns the option of reading that an unknown flag means, which `--read` sets.
fn reading_option(usage: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(flag)) = usage.get(ContextKind::InvalidArg) else { return None };
    let is_unknown = usage.kind() == ErrorKind::UnknownArgument;
    let option = InputOptions::find_option(flag.strip_prefix("--").filter(|_| is_unknown)?)?;
    Some(option.name())
}

/// Parses the command line. Help and usage errors come back as an error.
fn parse<P: Parser>(arguments: impl Iterator<Item = OsString>) -> Result<P, clap::Error> {
    let arguments: Vec<_> = arguments.map(protect_comment).collect();
    if arguments.iter().any(|argument| argument == "-h") {
        short(P::command()).try_get_matches_from(&arguments)?;
    }
    P::try_parse_from(arguments)
}

/// Returns `command` for `-h`, which has one line an option and leaves their values to `--help`.
fn short(command: clap::Command) -> clap::Command {
    let hide = |argument: clap::Arg| match argument.get_action().takes_values() {
        true => argument.hide_possible_values(true),
        false => argument,
    };
    command.mut_args(hide).mut_subcommands(short)
}

/// Returns `argument`, with a space in front if it is SQL that begins with a comment (`-- like
/// this`): clap would take it for an option.
fn protect_comment(argument: OsString) -> OsString {
    let is_comment = argument
        .to_str()
        .and_then(|text| text.strip_prefix("--"))
        .is_some_and(|rest| rest.starts_with(char::is_whitespace));
    if !is_comment {
        return argument;
    }
    let mut protected = OsString::from(" ");
    protected.push(argument);
    protected
}

/// Checks the help of a command line in tests: its lines fit the terminal, `-h` has one line for each
/// option, and options fit each other.
///
/// # Panics
/// If one of these does not hold.
pub fn check_help<P: CommandFactory>() {
    P::command().debug_assert();
    for columns in [80, 100] {
        let mut command = P::command().term_width(columns);
        command.build();
        check_width(&mut command, columns);
    }
    let mut command = short(P::command()).term_width(100);
    command.build();
    assert_eq!(further_lines(&mut command), [""; 0]);
}

/// Checks the help of `command` and of the commands below it.
fn check_width(command: &mut clap::Command, columns: usize) {
    let name = command.get_name().to_owned();
    let (short, long) = (command.render_help().to_string(), command.render_long_help().to_string());
    for line in short.lines().chain(long.lines()) {
        assert!(line.width() <= columns, "{name}: {} columns: {line}", line.width());
    }
    if let Some(examples) = command.get_after_long_help() {
        // A line that is wrapped again would end in the middle, and examples could not be pasted.
        assert!(long.contains(&examples.to_string()), "{name}: wrapped at {columns} columns: {long}");
        assert!(!short.contains("Example"), "{name}: {short}");
    }
    command.get_subcommands_mut().for_each(|command| check_width(command, columns));
}

/// Returns the lines of `-h` that go on with an option, of `command` and of the commands below it.
fn further_lines(command: &mut clap::Command) -> Vec<String> {
    let help = command.render_help().to_string();
    let options = help.lines().skip_while(|line| !line.starts_with("Options:"));
    let further = options.filter(|line| line.starts_with(' ') && !line.trim_start().starts_with('-'));
    let mut lines: Vec<_> = further.map(|line| format!("{}: {}", command.get_name(), line.trim())).collect();
    lines.extend(command.get_subcommands_mut().flat_map(further_lines));
    lines
}
