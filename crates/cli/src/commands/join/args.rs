//! The command line of `annulus join`, as it was typed and checked.

use std::{
    path::{self, PathBuf},
    time::Duration,
};

use annulus_cluster::{Algorithm, Input, JoinJob, JoinOptions, Link, Query, Revolutions, RingFile};
use annulus_dataset::{BadRows, Existing};
use annulus_distributed::Workers;
use annulus_join::Side;
use annulus_roundabout::secure::{HostName, Identity, Role};
use annulus_terminal::machine;
use anyhow::{Result, bail};

use super::values::{AlgorithmArg, InputsArg, KeyFilterArg, SideArg, TypeArg};
use crate::{
    cluster::{ClusterArgs, parse_workers},
    formats::DatasetFormat,
    reading::ReadingArgs,
    session::Limits,
    units::{self, Setting},
};

const EXAMPLES: &str = "\
Examples:
  annulus join lineitem/ orders.parquet --on l_orderkey=o_orderkey -o joined
  annulus join a.parquet b.parquet --where 'a.t BETWEEN b.t - 5 AND b.t + 5' \\
    --output near --local 4
  annulus join q=quotes/ t=trades/ --on symbol --where 't.time >= q.time' \\
    --type left --output out
  annulus join users.csv banned.csv --on id --type anti --output clean
  annulus join o=orders/ i=items/ --on id --output totals \\
    --select 'o.id, i.price * i.count AS total'
  annulus join a/ b/ --where 'levenshtein(a.name, b.name) <= 2' --explain
  annulus join /shared/a /shared/b --on id --output /shared/joined \\
    --workers 10.0.0.1:7500,10.0.0.2:7500 --certificates certs
  annulus join /shared/a /shared/b --on id --ring ring.toml \\
    --output /shared/joined

A side is a file, a folder or a glob of Parquet, CSV, JSON, Arrow IPC, Avro or
page files. A predicate calls the sides a and b, or by the names given
(NAME=PATH). Column names are case-sensitive.

--on and --where together are the join condition, as ON in SQL. With --type
left, rows of LEFT without a match are kept, with nulls for RIGHT. Null equals
nothing. The result has all columns of both sides; a column of RIGHT whose
name LEFT also has gets --suffix.

One host, the default, joins as annulus sql does: the join tells the scans
which rows and columns it needs. Workers join as those of annulus sql do, and
each writes a folder of the result. On a ring, one relation is stationary: each
host prepares its part of it. The other relation rotates: it is read in
fragments, which go from host to host around the ring. By default the smaller
relation rotates; on a single host, the larger one. Hosts find pairs with a
sort-merge join if the condition has a band (a.t < b.t + 5). For equal columns
they use a hash join or, in a ring, a sort-merge join if that is expected to
take less time; sorting pays in large rings, and if the inputs are sorted.
Otherwise they use nested loops. --explain shows the choice, its reasons, the
expected times, and the memory of each host. Every host joins the whole
rotating relation: on one machine, more hosts divide the memory, not the time.

Each host or worker writes its files to DIR/host-00/, DIR/host-01/ and so on.
The last file is DIR/manifest.json, with rows and checksums. The folder can be
the input of another command. If a host fails or you press Ctrl-C, the join
removes its partial output. A second Ctrl-C ends the join at once.

Fields of --json: the plan (with --explain only the plan), the result, and
per_host:
  dropped_left, dropped_right  predicates applied while that side is read
  host, rows, bytes            name; rows and bytes read of both sides
  prepared_bytes               bytes of both sides after preparation
  rows_dropped                 rotating rows that key filters dropped
  injected, joined             fragments sent and fragments joined
  bytes_joined                 bytes of the fragments joined
  load_ms, setup_ms            time to read and to prepare the input
  join_ms, wait_ms             time to join and write, and to wait
  peak_bytes                   peak memory of the process during the join

More: annulus help joins";

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct JoinArgs {
    /// Left side: a file, a folder or a glob, or NAME=PATH
    #[arg(value_name = "LEFT")]
    left: String,
    /// Right side
    #[arg(value_name = "RIGHT")]
    right: String,
    /// Columns that must be equal: LEFT=RIGHT, or one name for both
    ///
    /// Several pairs are separated by commas.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    on: Vec<String>,
    /// SQL predicate that pairs of rows must satisfy
    #[arg(long = "where", value_name = "PREDICATE", id = "condition")]
    condition: Option<String>,
    /// Type of the join
    #[arg(long = "type", value_name = "TYPE", default_value = "inner")]
    join: TypeArg,
    /// Output expressions, as in SQL [default: all columns]
    ///
    /// For example "a.id, b.price * 2 AS double, b.*". Only the columns that these and the
    /// condition need are read.
    #[arg(long, value_name = "EXPRESSIONS")]
    select: Option<String>,
    /// Folder for the result
    #[arg(long, short, value_name = "DIR", required_unless_present = "explain")]
    output: Option<PathBuf>,
    /// Run the join on workers, as in 10.0.0.1:7500,10.0.0.2:7500
    ///
    /// Addresses of annulus worker, a file with one in each line, or dns:NAME:PORT for all
    /// addresses of a name. The workers read the inputs and write the result at the same paths.
    #[arg(long, value_name = "LIST", value_parser = parse_workers, conflicts_with_all = ["cluster", "local", "ring"])]
    workers: Option<Workers>,
    /// Run the join on N workers that are started on this machine
    #[arg(long, value_name = "N", value_parser = units::parse_count, conflicts_with_all = ["local", "ring"])]
    cluster: Option<usize>,
    /// With --workers, folder with the certificate and key of a submitter
    #[arg(long, value_name = "DIR", requires = "workers")]
    certificates: Option<PathBuf>,
    /// Set an option of the workers' queries, as in annulus sql
    #[arg(long, value_name = "KEY=VALUE", value_parser = units::parse_setting, conflicts_with_all = ["local", "ring"])]
    set: Vec<Setting>,
    /// Host processes on this machine
    #[arg(long, value_name = "N", default_value = "1", value_parser = units::parse_count, conflicts_with = "ring")]
    local: usize,
    /// Run the join on the hosts of a ring (see annulus node)
    #[arg(long, value_name = "FILE")]
    ring: Option<PathBuf>,
    /// The submitter whose certificate to use, if the folder has several
    #[arg(long, value_name = "NAME")]
    name: Option<HostName>,
    /// Whether workers or hosts share the input files
    #[arg(long, value_name = "MODE", default_value = "shared", conflicts_with = "local")]
    inputs: InputsArg,
    /// Relation that rotates around the ring
    ///
    /// By default the smaller one, or on a single host the larger one.
    #[arg(long, value_name = "SIDE", conflicts_with_all = ON_WORKERS)]
    rotate: Option<SideArg>,
    /// Join algorithm [default: the fastest for the condition]
    ///
    /// For equal columns, a cost model chooses between hash and merge; --explain shows both costs.
    #[arg(long, conflicts_with_all = ON_WORKERS)]
    algorithm: Option<AlgorithmArg>,
    /// Filter that drops rotating rows without a partner
    ///
    /// The hosts make it of the keys of the other relation, before any row is sent. With several
    /// revolutions, each has its own filter.
    #[arg(long, value_name = "FORM", default_value = "auto", conflicts_with_all = ON_WORKERS)]
    key_filter: KeyFilterArg,
    /// Threads of each host
    ///
    /// By default all cores of the host. With --local, the cores are divided among the hosts.
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    threads: Option<usize>,
    /// Memory that each host may use [default: unlimited]
    ///
    /// A size such as 512M or 2G. On one host, rows that do not fit go to hidden files in the output
    /// folder. On a ring, a join that would need more is refused.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    memory_limit: Option<usize>,
    /// Parts of the stationary relation, or auto
    ///
    /// The parts are joined in turn. The other relation rotates once for each part. With auto, the
    /// number follows from --memory-limit.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_revolutions)]
    #[arg(conflicts_with_all = ON_WORKERS)]
    revolutions: Revolutions,
    /// Size of the rotating fragments, from 4K to 1G
    ///
    /// A row must fit in a fragment.
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = units::parse_size)]
    #[arg(conflicts_with_all = ON_WORKERS)]
    fragment_size: usize,
    /// Fragment buffers of each host
    ///
    /// More buffers compensate for hosts whose speed varies.
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u32).range(3..=1 << 16))]
    #[arg(conflicts_with_all = ON_WORKERS)]
    buffers: u32,
    /// Seconds of silence after which a host is lost
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = units::parse_seconds)]
    timeout: Duration,
    /// Restart up to N times without a host that is lost
    #[arg(long, value_name = "N", default_value = "0", num_args = 0..=1, default_missing_value = "1")]
    retry: usize,
    /// With --ring, seconds to wait in the queue of a busy ring
    ///
    /// The join is planned before it waits: its inputs must not change until it ends.
    #[arg(long, value_name = "SECONDS", requires = "ring", value_parser = units::parse_seconds)]
    wait: Option<Duration>,
    /// Suffix for columns of RIGHT that LEFT also has
    #[arg(long, value_name = "TEXT", default_value = "_right")]
    suffix: String,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Format of the result's files
    #[arg(long, default_value = "parquet")]
    format: DatasetFormat,
    /// Delete a dataset in the output folder first
    ///
    /// The old dataset is gone even if the join fails.
    #[arg(long)]
    overwrite: bool,
    /// Show how the join would run, without running it
    #[arg(long)]
    explain: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// The options that decide where workers run a join. What the others decide, workers decide themselves.
const ON_WORKERS: [&str; 2] = ["workers", "cluster"];

/// The workers of a join, and their options.
pub struct OnWorkers {
    pub cluster: ClusterArgs,
    pub limits: Limits,
    pub settings: Vec<Setting>,
}

/// A join to run or to explain.
pub struct JoinCommandJob {
    pub job: JoinJob,
    /// Without them, the join runs on hosts.
    pub workers: Option<OnWorkers>,
    pub hosts: usize,
    /// The ring and the submitter; without them, hosts are processes of this machine.
    pub ring: Option<(RingFile, Identity)>,
    /// The number of restarts that are allowed, each without a host that was lost.
    pub retries: usize,
    pub explain: bool,
    pub json: bool,
}

impl JoinArgs {
    /// Checks the arguments against each other.
    pub fn check(self) -> Result<JoinCommandJob> {
        if self.on.is_empty() && self.condition.is_none() {
            bail!("no join condition: give --on COLUMNS, --where PREDICATE, or both");
        }
        let workers = self.on_workers()?;
        if matches!(self.inputs, InputsArg::Each) && workers.is_none() && self.ring.is_none() {
            bail!("--inputs each needs --workers, --cluster or --ring");
        }
        let options = self.reading.options()?;
        if options.on_bad_row == BadRows::Quarantine {
            bail!("invalid --on-bad-row 'quarantine': only partition has it; expected fail or skip");
        }
        if self.retry > 0 && matches!(self.inputs, InputsArg::Each) {
            bail!("--retry cannot be used with --inputs each: without a lost host, its rows would be missing");
        }
        let ring = match &self.ring {
            Some(path) => {
                let file = RingFile::load(path)?;
                let identity = file.identity(Role::Submitter, self.name.as_ref())?;
                Some((file, identity))
            }
            None => None,
        };
        // Hosts of a ring run in other folders, so relative paths become absolute.
        let is_elsewhere = ring.is_some() || workers.is_some();
        let path_of = |path: &str| if is_elsewhere { absolute(path) } else { path.to_owned() };
        let input = |text: &str, name: &str| {
            let (name, path) = named(text).unwrap_or((name, text));
            let mut input = Input::new(name, vec![path_of(path)]);
            input.options = options.clone();
            input
        };
        let (left, right) = (input(&self.left, "a"), input(&self.right, "b"));
        if left.name == right.name {
            bail!("LEFT and RIGHT are both named '{}': give one of them another name (NAME=PATH)", left.name);
        }
        let output = self.output.unwrap_or_default();
        let output = if is_elsewhere { PathBuf::from(absolute(&output.to_string_lossy())) } else { output };
        let hosts = ring.as_ref().map_or(self.local, |(file, _)| file.hosts.len());
        let pair = |text: &String| {
            let (left, right) = text.split_once('=').unwrap_or((text, text));
            (left.trim().to_owned(), right.trim().to_owned())
        };
        let mut query = Query::new(left, right);
        query.on = self.on.iter().map(pair).collect();
        (query.condition, query.select) = (self.condition, self.select);
        (query.join, query.suffix) = (self.join.into(), self.suffix);
        let mut options = JoinOptions::default();
        options.rotate = self.rotate.map(Side::from);
        options.algorithm = self.algorithm.map(Algorithm::from);
        options.threads = self.threads.or_else(|| ring.is_none().then(|| (machine::cores() / self.local).max(1)));
        // A size beyond u32 is refused together with other sizes that are out of range.
        options.fragment_bytes = u32::try_from(self.fragment_size).unwrap_or(u32::MAX);
        options.buffers = self.buffers;
        options.timeout = self.timeout;
        options.memory_bytes = self.memory_limit.map(|bytes| bytes as u64);
        options.inputs = self.inputs.into();
        options.key_filter = self.key_filter.into();
        options.link = if ring.is_some() { Link::Network } else { Link::SharedMemory };
        options.revolutions = self.revolutions;
        options.wait = self.wait.unwrap_or_default();
        let mut job = JoinJob::new(query, output);
        job.options = options;
        job.existing = if self.overwrite { Existing::Overwrite } else { Existing::Refuse };
        job.format = self.format.into();
        let (retries, explain, json) = (self.retry, self.explain, self.json);
        Ok(JoinCommandJob { job, workers, hosts, ring, retries, explain, json })
    }

    /// Returns the workers that are to run the join.
    fn on_workers(&self) -> Result<Option<OnWorkers>> {
        if self.workers.is_none() && self.cluster.is_none() {
            return Ok(None);
        }
        if self.cluster.is_none() && self.memory_limit.is_some() {
            bail!("--memory-limit cannot be used with --workers: each worker has a limit of its own");
        }
        let cluster = ClusterArgs {
            workers: self.workers.clone(),
            cluster: self.cluster,
            certificates: self.certificates.clone(),
            name: self.name.clone(),
            silence: Some(self.timeout),
        };
        let limits = Limits { target_partitions: self.threads, memory_bytes: self.memory_limit };
        Ok(Some(OnWorkers { cluster, limits, settings: self.set.clone() }))
    }
}

fn absolute(path: &str) -> String {
    path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}

fn parse_revolutions(text: &str) -> Result<Revolutions, String> {
    if text == "auto" { Ok(Revolutions::Auto) } else { units::parse_count(text).map(Revolutions::Exactly) }
}

/// Splits `NAME=PATH` if NAME is an SQL name that needs no quotes; a path may contain `=`, too.
fn named(text: &str) -> Option<(&str, &str)> {
    let (name, path) = text.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !path.is_empty()).then_some((name, path))
}
