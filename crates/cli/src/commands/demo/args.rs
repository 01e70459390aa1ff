//! The command line of `annulus demo`.

use std::path::PathBuf;

use annulus_terminal::units::parse_tuples;

const EXAMPLES: &str = "\
Examples:
  annulus demo
  annulus demo visits --rows 10M

Generates visits to a web site and alerts, splits the visits into files by
visitor, joins them with the alerts of the next minute, and counts them. Then it
runs a query with DataFusion's operators and with those of Annulus, compares the
answers, and prints both times. Each command is printed before it runs, so you
can change it and run it again in the folder. After an error or Ctrl-C, the
folder is removed.";

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct DemoArgs {
    /// Folder for the files; must not exist
    #[arg(value_name = "DIR", default_value = "annulus-demo")]
    pub folder: PathBuf,
    /// Number of visits to generate
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_tuples)]
    pub rows: u64,
}
