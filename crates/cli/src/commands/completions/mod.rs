//! `annulus completions`: a shell's completions of the command line.

use std::io::{Write, stdout};

use anyhow::{Context, Result};
use clap_complete::Shell;

use crate::outcome::Outcome;

#[derive(clap::Args)]
#[command(after_long_help = "Examples:
  annulus completions bash > ~/.local/share/bash-completion/completions/annulus
  annulus completions zsh > ~/.zfunc/_annulus     (a folder in $fpath)
  annulus completions fish > ~/.config/fish/completions/annulus.fish")]
pub struct CompletionsArgs {
    /// Shell to print the script for
    pub shell: Shell,
}

/// Prints the script that completes `command` in a shell.
pub fn run(args: CompletionsArgs, mut command: clap::Command) -> Result<Outcome> {
    let name = command.get_name().to_owned();
    // Written to memory first, because the generator would panic on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    stdout().write_all(&script).context("cannot print")?;
    Ok(Outcome::Done)
}
