//! The command line of `annulus join`, as it was typed and checked.

use std::{
    path::{self, PathBuf},
    time::Duration,
};

use annulus_cluster::{Algorithm, Input, Inputs, JoinJob, JoinKind, JoinOptions, Query, Revolutions, RingFile};
use annulus_dataset::{input::BadRows, output::Existing};
use annulus_join::Side;
use annulus_roundabout::secure::{HostName, Identity, Role};
use annulus_terminal::machine;
use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::{formats::DatasetFormat, reading::ReadingArgs, units};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  annulus join lineitem/ orders.parquet --on l_orderkey=o_orderkey --output joined
  annulus join a.parquet b.parquet --where 'a.t BETWEEN b.t - 5 AND b.t + 5' --output near --local 4
  annulus join q=quotes/ t=trades/ --on symbol --where 't.time >= q.time' --type left --output out
  annulus join users.csv banned.csv --on id --type anti --output clean
  annulus join o=orders/ i=items/ --on id --select 'o.id, i.price * i.count AS total' --output totals
  annulus join a/ b/ --where 'levenshtein(a.name, b.name) <= 2' --output alike --explain
  annulus join /shared/a /shared/b --on id --ring ring.toml --output /shared/joined

Inputs are a file, a folder or a glob of Parquet, CSV, JSON, Arrow IPC, Avro or page files. A predicate calls them a and b, unless a name is
given (NAME=PATH), and their columns as they are called in the files, in capitals and small letters. --on and --where are the condition of the join: with
--type left, rows of LEFT without a partner come out with nulls. Null is equal to nothing. All columns come out, or the
expressions of --select; then only the columns that these and the condition need are read. A column of RIGHT gets --suffix where
another one has its name.

One side stays on its hosts, and the other is read meanwhile and goes around the ring in fragments (--rotate; by default the smaller one,
and on one host the larger one). Hosts find pairs by hash if the condition has equal keys, by sorting if it has a band (a.t < b.t + 5), and
by looking at all pairs otherwise; --explain says which, and what memory each host needs. Every host joins the whole side that goes around,
so on one machine more hosts divide the memory, not the time.

DIR/host-00/ and so on have the files of each host, and DIR/manifest.json, with rows and checksums, comes last; the folder can be the next join's
input. If a host fails or you press Ctrl-C, the join removes its partial output; a second Ctrl-C ends it at once.

Fields of --json: those of the plan (with --explain these alone), of the result, and per_host:
  dropped_left, dropped_right  predicates that are applied where that side is read
  host, rows, bytes            its name, and its rows and bytes of both sides as they were read
  prepared_bytes               those of both sides when they were prepared
  injected, joined             fragments that it sent around, and those that it joined; bytes_joined are theirs
  load_ms, setup_ms, join_ms, wait_ms
                               reading, preparing, joining and writing, and waiting for fragments
  peak_bytes                   most memory of its process while it was at the join")]
pub struct JoinArgs {
    /// The left side: a file, folder or glob, or NAME=PATH
    #[arg(value_name = "LEFT")]
    left: String,
    /// The right side
    #[arg(value_name = "RIGHT")]
    right: String,
    /// Columns that are equal: LEFT=RIGHT, or one name for both; several with commas between
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    on: Vec<String>,
    /// A SQL predicate over both sides that pairs must satisfy
    #[arg(long = "where", value_name = "PREDICATE", id = "condition")]
    condition: Option<String>,
    /// Which rows come out: inner, left, right, full, semi, anti, right-semi, right-anti
    #[arg(long = "type", value_name = "TYPE", default_value = "inner")]
    join: JoinKind,
    /// Expressions that come out, as in SQL: "a.id, b.price * 2 AS double, b.*" [default: all columns]
    #[arg(long, value_name = "EXPRESSIONS")]
    select: Option<String>,
    /// Folder for the result
    #[arg(long, short, value_name = "DIR", required_unless_present = "explain")]
    output: Option<PathBuf>,
    /// Host processes on this machine
    #[arg(long, value_name = "T", default_value = "1", value_parser = units::parse_count, conflicts_with = "ring")]
    local: usize,
    /// The file of a ring whose hosts run already (annulus node --ring)
    #[arg(long, value_name = "FILE")]
    ring: Option<PathBuf>,
    /// With --ring, the submitter whose certificate is shown [default: the one whose key is in the
    /// folder of certificates]
    #[arg(long, value_name = "NAME", requires = "ring")]
    name: Option<HostName>,
    /// With --ring, whose files stand under the inputs' paths: shared by all hosts, or each host's
    /// own
    #[arg(long, value_name = "WHOSE", requires = "ring", default_value = "shared")]
    inputs: InputsArg,
    /// The side that goes around the ring [default: the smaller one, or on one host the larger one]
    #[arg(long, value_name = "SIDE")]
    rotate: Option<SideArg>,
    /// How hosts find pairs [default: what suits the condition]
    #[arg(long)]
    algorithm: Option<AlgorithmArg>,
    /// Threads of each host [default: its cores; with --local, the cores divided among the hosts]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    threads: Option<usize>,
    /// Memory that each host may use, like 512M or 2G: a join that needs more is refused [default:
    /// no limit]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    memory_limit: Option<usize>,
    /// Cut the stationary side into N parts and turn the ring once for each, or 'auto': as often as
    /// --memory-limit asks for
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_revolutions)]
    revolutions: Revolutions,
    /// Bytes of the fragments that go around, on one of which a row must fit: from 4K to 1G
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = units::parse_size)]
    fragment_size: usize,
    /// Buffers of each host for fragments: more make up for hosts of changing speed
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u32).range(3..=1 << 16))]
    buffers: u32,
    /// Seconds without a word after which a host counts as failed
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = units::parse_seconds)]
    timeout: Duration,
    /// Start over as often as N times if a host is lost, without that host
    #[arg(long, value_name = "N", default_value = "0", num_args = 0..=1, default_missing_value = "1")]
    retry: usize,
    /// With --ring, seconds to wait in the queue of a ring that is busy with other joins
    #[arg(long, value_name = "SECONDS", requires = "ring", value_parser = units::parse_seconds)]
    wait: Option<Duration>,
    /// Added to the names of columns of RIGHT that LEFT has, too
    #[arg(long, value_name = "TEXT", default_value = "_right")]
    suffix: String,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Format of the result's files
    #[arg(long, default_value = "parquet")]
    format: DatasetFormat,
    /// Delete a dataset that is in the folder, first: it is gone also if the join fails
    #[arg(long)]
    overwrite: bool,
    /// Say how the join would be done, and do not do it
    #[arg(long)]
    explain: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum InputsArg {
    /// All hosts see the same files, and each reads a part of them
    Shared,
    /// Each host reads all files that it sees; there are some here, too, which tell columns and
    /// sizes
    Each,
}

#[derive(Clone, Copy, ValueEnum)]
enum SideArg {
    Left,
    Right,
}

#[derive(Clone, Copy, ValueEnum)]
enum AlgorithmArg {
    /// By a hash of equal keys
    Hash,
    /// By sorting both sides: equal keys, a band, or both
    Merge,
    /// By looking at every pair
    Loops,
}

/// A join to be carried out, or explained.
pub struct JoinCommandJob {
    pub job: JoinJob,
    pub hosts: usize,
    /// The ring that does it, and who asks for it; processes of this machine without one.
    pub ring: Option<(RingFile, Identity)>,
    /// How often it may start over without a host that was lost.
    pub retries: usize,
    pub explain: bool,
    pub json: bool,
}

impl JoinArgs {
    /// Checks the arguments against each other.
    pub fn check(self) -> Result<JoinCommandJob> {
        if self.on.is_empty() && self.condition.is_none() {
            bail!("nothing to join on; give columns that are equal (--on), or a predicate (--where), or both");
        }
        let options = self.reading.options()?;
        if options.on_bad_row == BadRows::Quarantine {
            bail!("--on-bad-row quarantine is not for joins; choose fail or skip");
        }
        if self.retry > 0 && matches!(self.inputs, InputsArg::Each) {
            bail!(
                "--retry starts over without a host, and with --inputs each also without its rows; choose one of them"
            );
        }
        let ring = match &self.ring {
            Some(path) => {
                let file = RingFile::load(path)?;
                let identity = file.identity(Role::Submitter, self.name.as_ref())?;
                Some((file, identity))
            }
            None => None,
        };
        // Hosts may run in other folders.
        let path_of = |path: &str| if ring.is_some() { absolute(path) } else { path.to_owned() };
        let input = |text: &str, name: &str| {
            let (name, path) = named(text).unwrap_or((name, text));
            let mut input = Input::new(name, vec![path_of(path)]);
            input.options = options.clone();
            input
        };
        let output = self.output.unwrap_or_default();
        let output = if ring.is_some() { PathBuf::from(absolute(&output.to_string_lossy())) } else { output };
        let hosts = ring.as_ref().map_or(self.local, |(file, _)| file.hosts.len());
        let pair = |text: &String| {
            let (left, right) = text.split_once('=').unwrap_or((text, text));
            (left.trim().to_owned(), right.trim().to_owned())
        };
        let mut query = Query::new(input(&self.left, "a"), input(&self.right, "b"));
        query.on = self.on.iter().map(pair).collect();
        (query.condition, query.select) = (self.condition, self.select);
        (query.join, query.suffix) = (self.join, self.suffix);
        let mut options = JoinOptions::default();
        options.rotate = self.rotate.map(|side| match side {
            SideArg::Left => Side::Left,
            SideArg::Right => Side::Right,
        });
        options.algorithm = self.algorithm.map(|algorithm| match algorithm {
            AlgorithmArg::Hash => Algorithm::Hash,
            AlgorithmArg::Merge => Algorithm::Merge,
            AlgorithmArg::Loops => Algorithm::Loops,
        });
        options.threads = self.threads.or_else(|| ring.is_none().then(|| (machine::cores() / self.local).max(1)));
        // A size that is too large is refused later, with the allowed range.
        options.fragment_bytes = u32::try_from(self.fragment_size).unwrap_or(u32::MAX);
        options.buffers = self.buffers;
        options.timeout = self.timeout;
        options.memory_bytes = self.memory_limit.map(|bytes| bytes as u64);
        options.inputs = match self.inputs {
            InputsArg::Shared => Inputs::Shared,
            InputsArg::Each => Inputs::Each,
        };
        options.revolutions = self.revolutions;
        options.wait = self.wait.unwrap_or_default();
        let mut job = JoinJob::new(query, output);
        job.options = options;
        job.existing = if self.overwrite { Existing::Overwrite } else { Existing::Refuse };
        job.format = self.format.into();
        Ok(JoinCommandJob { job, hosts, ring, retries: self.retry, explain: self.explain, json: self.json })
    }
}

fn absolute(path: &str) -> String {
    path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}

fn parse_revolutions(text: &str) -> Result<Revolutions, String> {
    if text == "auto" { Ok(Revolutions::Auto) } else { units::parse_count(text).map(Revolutions::Exactly) }
}

/// `NAME=PATH`, where NAME is one that SQL can have without quotes; a path may have a `=`, too.
fn named(text: &str) -> Option<(&str, &str)> {
    let (name, path) = text.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !path.is_empty()).then_some((name, path))
}
