//! From what is asked for to a job: the inputs are opened, and what a sample decides is decided.

use super::{HotFiles, Job};
use crate::{
    error::DatasetError,
    input::{BadRows, Dataset, InputOptions},
    output::OutputOptions,
    placement::{Placement, PlacementSpec, sample_ranges},
};

/// What is to be split, how, and where to, before the inputs have been looked at.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// Files, folders or globs; `-` for standard input. See [`Dataset::open`].
    pub inputs: Vec<String>,
    /// How they are read.
    pub input: InputOptions,
    /// The key columns; none if rows are placed by turns.
    pub by: Vec<String>,
    /// Number of partitions.
    pub into: usize,
    /// Where rows go.
    pub placing: Placing,
    /// As [`Job::hot_key_share`].
    pub hot_key_share: f64,
    /// Whether hot keys get extra files, and how many if that is given; see [`HotFiles::sample`].
    pub split_hot_keys: Option<Option<usize>>,
    /// Where files go.
    pub output: OutputOptions,
    /// Number of worker threads, at least one.
    pub threads: usize,
    /// As [`Job::memory_limit`].
    pub memory_limit: usize,
}

/// How rows are placed.
#[derive(Clone, Debug)]
pub enum Placing {
    /// By a rule that is given.
    By(PlacementSpec),
    /// By ranges whose split points are found in a sample; see [`sample_ranges`].
    SampledRanges,
}

impl JobSpec {
    /// Opens the inputs, and finds split points and hot keys in samples where that is asked for.
    ///
    /// # Errors
    /// If the inputs cannot be read, or options do not fit to them or to each other.
    pub fn plan(self) -> Result<Job, DatasetError> {
        if matches!(self.placing, Placing::By(PlacementSpec::RoundRobin)) && !self.by.is_empty() {
            return Err(DatasetError::Config {
                option: "--by",
                value: format!("'{}' together with --round-robin", self.by.join(",")),
                remedy: "rows that are placed by turns have no key; leave one of the two out".to_owned(),
            });
        }
        let dataset = Dataset::open(&self.inputs, &self.input)?;
        let spec = match self.placing {
            Placing::By(spec) => spec,
            Placing::SampledRanges => sample_ranges(&dataset, &self.by, self.into)?,
        };
        let placement = Placement::new(&spec, &dataset.schema, &self.by, self.into)?;
        let hot_files = match self.split_hot_keys {
            Some(files) => HotFiles::sample(&dataset, &spec, &self.by, self.into, self.hot_key_share, files)?,
            None => HotFiles::default(),
        };
        Ok(Job {
            dataset,
            placement,
            by: self.by,
            hot_files,
            hot_key_share: self.hot_key_share,
            output: self.output,
            threads: self.threads,
            memory_limit: self.memory_limit,
            quarantine: self.input.on_bad_row == BadRows::Quarantine,
        })
    }
}
