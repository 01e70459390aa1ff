//! The options of a worker that a file has.

use std::{env, ffi::OsString, fs, path::Path};

use anyhow::{Context, Result, bail};
use clap::{Args, Command, FromArgMatches};
use toml::{Table, Value};

use super::args::WorkerArgs;

/// The options that say something about a command line, and not about a worker.
const OF_COMMAND_LINES: [&str; 3] = ["config", "help", "child-of"];

/// Returns the arguments with the options of their file, if they name one. Those of the command line
/// win.
///
/// # Errors
/// If the file cannot be read, or has an option that is none.
pub fn complete(args: WorkerArgs) -> Result<WorkerArgs> {
    let Some(path) = &args.config else { return Ok(args) };
    // The program, and the name of the command.
    let given = env::args_os().skip(2);
    with_file(path, given).with_context(|| format!("invalid --config '{}'", path.display()))
}

fn with_file(path: &Path, given: impl Iterator<Item = OsString>) -> Result<WorkerArgs> {
    let text = fs::read_to_string(path)?;
    let table: Table = text.parse()?;
    let command = WorkerArgs::augment_args(Command::new("annulus worker")).args_override_self(true);
    let known: Vec<_> = command.get_arguments().filter_map(|argument| argument.get_long()).collect();
    let known: Vec<_> = known.into_iter().filter(|name| !OF_COMMAND_LINES.contains(name)).map(str::to_owned).collect();
    let given: Vec<OsString> = given.collect();
    let mut all: Vec<OsString> = vec!["annulus worker".into()];
    for (name, value) in table {
        if !known.contains(&name) {
            bail!("unknown option '{name}'; expected one of {}", known.join(", "));
        }
        let option = format!("--{name}");
        let is_option = |given: &OsString| {
            let given = given.to_string_lossy();
            given == option || given.strip_prefix(&option).is_some_and(|rest| rest.starts_with('='))
        };
        if !given.iter().any(is_option) {
            all.extend(as_arguments(&name, &value)?.into_iter().map(OsString::from));
        }
    }
    all.extend(given);
    let matches = command.try_get_matches_from(all).map_err(|error| {
        // What follows is how the command is used.
        let text = error.to_string();
        let text = text.split("\n\n").next().unwrap_or_default();
        anyhow::anyhow!("{}", text.strip_prefix("error: ").unwrap_or(text))
    })?;
    Ok(WorkerArgs::from_arg_matches(&matches)?)
}

fn as_arguments(name: &str, value: &Value) -> Result<Vec<String>> {
    Ok(match value {
        Value::String(value) => vec![format!("--{name}={value}")],
        Value::Integer(value) => vec![format!("--{name}={value}")],
        Value::Float(value) => vec![format!("--{name}={value}")],
        Value::Boolean(true) => vec![format!("--{name}")],
        Value::Boolean(false) => Vec::new(),
        Value::Array(values) => {
            let all = values.iter().map(|value| as_arguments(name, value)).collect::<Result<Vec<_>>>()?;
            all.concat()
        }
        Value::Datetime(_) | Value::Table(_) => bail!("option '{name}' must be a text, a number, or a list of these"),
    })
}

#[cfg(test)]
mod tests {
    use std::{io::Write, path::PathBuf, time::Duration};

    use super::*;

    fn read(text: &str, given: &[&str]) -> Result<WorkerArgs, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        with_file(file.path(), given.iter().map(OsString::from)).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_file_has_the_options_of_the_command_line() {
        let text = "listen = '10.0.0.1:7500'\nallow-read = ['/a', '/b']\nmemory-limit = '8G'\nmax-queries = 4\n\
                    drain = 1.5\ninsecure = true\nstatus = '127.0.0.1:0'";
        let args = read(text, &["--listen", "10.0.0.2:7500", "--threads=3"]).unwrap();
        assert_eq!(args.listen, "10.0.0.2:7500", "the command line wins");
        assert_eq!(args.allow_read, ["/a", "/b"].map(PathBuf::from));
        assert_eq!((args.memory_bytes, args.max_queries, args.threads), (Some(8 << 30), Some(4), Some(3)));
        assert_eq!((args.drain, args.insecure), (Duration::from_millis(1500), true));
        let args = read(text, &["--allow-read=/c", "--max-queries", "2"]).unwrap();
        assert_eq!((args.allow_read, args.max_queries), (vec![PathBuf::from("/c")], Some(2)));
    }

    #[test]
    fn what_is_no_option_is_named() {
        let refused = |text: &str| read(text, &[]).err().unwrap();
        assert!(refused("allow-read = '/'\ncolour = 1").contains("unknown option 'colour'; expected one of listen"));
        assert!(refused("allow-read = '/'\nconfig = 'x'").contains("unknown option 'config'"));
        assert!(refused("allow-read = '/'\nmax-queries = 'many'").contains("--max-queries"));
        assert!(refused("[listen]\nport = 1").contains("option 'listen' must be"));
        assert!(refused("listen = '1:2'").contains("--allow-read"));
        assert!(refused("listen").contains("TOML"));
    }
}
