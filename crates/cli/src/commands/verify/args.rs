//! The command line of `annulus verify`.

use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  annulus verify parts
  annulus verify parts --json

Reads every file of a folder that partition or join wrote, and compares it
with the size and the checksum (XXH64) in its manifest. Files that are
missing, differ, or are not in the manifest are listed, and the exit code is
1.";

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct VerifyArgs {
    /// Folder of the dataset
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Print the report as one JSON object, for programs
    #[arg(long)]
    pub json: bool,
}
