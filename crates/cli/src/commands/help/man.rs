//! `annulus man`: manual pages.

use std::{
    fs,
    io::{Write, stdout},
    path::PathBuf,
};

use anyhow::{Context, Result};
use clap_mangen::Man;

use super::find;
use crate::outcome::Outcome;

#[derive(clap::Args)]
#[command(after_long_help = "Examples:
  annulus man | man -l -
  annulus man worker status | man -l -
  annulus man --out ~/.local/share/man/man1          install all pages")]
pub struct ManArgs {
    /// Command whose page to print [default: annulus itself]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    pub command: Vec<String>,
    /// Folder for the pages of all commands; created if missing
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Prints the page of a part of `root`, or writes all pages.
pub fn run(args: ManArgs, root: clap::Command) -> Result<Outcome> {
    let mut root = root.disable_help_subcommand(true);
    root.build();
    let mut root = with_usage(root);
    if let Some(out) = args.out {
        let written = fs::create_dir_all(&out).and_then(|()| clap_mangen::generate_to(root, &out));
        written.with_context(|| format!("cannot write manual pages to '{}'", out.display()))?;
        return Ok(Outcome::Done);
    }
    let command = find(&mut root, &args.command)?.clone();
    let mut page = Vec::new();
    Man::new(command).render(&mut page).context("cannot make the page")?;
    stdout().write_all(&page).context("cannot print")?;
    Ok(Outcome::Done)
}

/// Returns `command` with its usage in one line as the synopsis of its page, and the version at its foot,
/// and the same for those below it. All options would fill half a page.
fn with_usage(mut command: clap::Command) -> clap::Command {
    let usage = command.render_usage().to_string();
    let lines = usage.trim_start_matches("Usage:").lines().map(str::trim);
    let usage = lines.collect::<Vec<_>>().join("\n");
    if command.get_version().is_none() {
        command = command.version(env!("CARGO_PKG_VERSION")).disable_version_flag(true);
    }
    command.override_usage(usage).mut_subcommands(with_usage)
}
