//! `annulus help` and `annulus man`: the help of commands, as text and as manual pages, and the
//! pages of `docs/` on topics.

mod man;
mod pager;

use std::fmt::Write as _;

use anyhow::{Result, bail};
pub use man::{ManArgs, run as run_man};

use crate::outcome::Outcome;

/// The name of each topic, what it is about, and its page. The folder is a link to the
/// repository's.
const TOPICS: [(&str, &str, &str); 10] = [
    ("csv", "headers, dialects, types and bad rows of CSV files", include_str!("../../../docs/csv.md")),
    ("inputs", "files, folders, types and manifests", include_str!("../../../docs/inputs.md")),
    ("joins", "conditions, columns and memory", include_str!("../../../docs/joins.md")),
    ("json", "the output of --json", include_str!("../../../docs/json.md")),
    ("outputs", "formats, names and types of what is written", include_str!("../../../docs/outputs.md")),
    ("partitioning", "placement, hot keys and what is written", include_str!("../../../docs/partitioning.md")),
    ("queries", "tables, options and memory of annulus sql", include_str!("../../../docs/sql.md")),
    ("slow", "where the time of a query or a job goes, and what helps", include_str!("../../../docs/slow.md")),
    ("topology", "CPUs, caches, places of threads, K and rings", include_str!("../../../docs/topology.md")),
    ("workers", "how to run SQL and joins on several machines", include_str!("../../../docs/workers.md")),
];

#[derive(clap::Args)]
#[command(after_long_help = topics())]
pub struct HelpArgs {
    /// A command, or one of the topics below
    #[arg(value_name = "COMMAND|TOPIC")]
    pub words: Vec<String>,
}

fn topics() -> String {
    let mut text = "Examples:\n  annulus help worker status\n  annulus help inputs\n\nTopics:".to_owned();
    for (name, about, _) in TOPICS {
        // Writing to a String cannot fail.
        write!(text, "\n  {name:<12}  {about}").ok();
    }
    text
}

/// Prints the help of a part of `root`, or the page of a topic.
pub fn run(args: HelpArgs, mut root: clap::Command) -> Result<Outcome> {
    let topic = match &args.words[..] {
        [word] => TOPICS.iter().find(|(name, ..)| name == word),
        _ => None,
    };
    if let Some((.., page)) = topic {
        // Comments are for the script that runs the page's commands.
        let lines = page.lines().filter(|line| !line.trim_start().starts_with("<!--"));
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        pager::show(&text)?;
        return Ok(Outcome::Done);
    }
    root.build();
    pager::show(&find(&mut root, &args.words)?.render_long_help().to_string())?;
    Ok(Outcome::Done)
}

/// Finds the command that `words` name below `root`.
///
/// # Errors
/// If there is none.
fn find<'a>(root: &'a mut clap::Command, words: &[String]) -> Result<&'a mut clap::Command> {
    let mut command = root;
    for word in words {
        match command.find_subcommand_mut(word) {
            Some(found) => command = found,
            None => bail!("no command or topic '{}': 'annulus help help' lists them", words.join(" ")),
        }
    }
    Ok(command)
}
