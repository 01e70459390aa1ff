//! Plans a job: opens the inputs, and samples them for split points and hot keys if asked to.

use arrow::datatypes::SchemaRef;

use super::{DEFAULT_MEMORY, HotFiles, Job, SMALL_SPILL_BYTES, sample_ranges};
use crate::{
    bad_rows::BadRows,
    column_list::columns_text,
    error::{DatasetError, DatasetOption},
    hot_keys::DEFAULT_HOT_SHARE,
    input::{Dataset, InputOptions, type_of_column},
    manifest::{Manifest, SortColumn},
    output::OutputOptions,
    placement::{Placement, PlacementSpec, VALUE_BUCKETS, splits_of},
};

/// The specification of a job, before its inputs have been read: what to split, how, and where the
/// files go.
///
/// ```
/// use annulus_dataset::{CancelToken, JobSpec, OutputFormat, OutputOptions, NoProgress, split};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = |name: &str| folder.path().join(name).to_str().expect("a UTF-8 path").to_owned();
/// # std::fs::write(path("orders.csv"), "id,amount\n1,10\n2,20\n3,30\n")?;
/// let output = OutputOptions::new(path("parts"), OutputFormat::Parquet);
/// let mut spec = JobSpec::new(vec![path("orders.csv")], output);
/// spec.by = vec!["id".to_owned()];
/// spec.into = Some(4);
/// let summary = split(&spec.plan()?, &NoProgress, &CancelToken::new())?;
/// assert_eq!(summary.manifest.rows, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobSpec {
    /// The inputs: files, folders or globs, or `-` for standard input. See [`Dataset::open`].
    pub inputs: Vec<String>,
    /// The options for reading the inputs.
    pub input: InputOptions,
    /// The key columns; empty if rows are placed in turn.
    pub by: Vec<String>,
    /// The number of partitions; `None` if each value has a folder of its own.
    pub into: Option<usize>,
    /// The placement of rows.
    pub placing: PlacementChoice,
    /// The columns that the rows of each file are sorted by; see [`Job::sort_by`].
    pub sort_by: Vec<SortColumn>,
    /// The share of rows that makes a key hot; see [`Job::hot_key_share`].
    pub hot_key_share: f64,
    /// `Some` to give hot keys extra files, with the number of files if it is fixed; see
    /// [`HotFiles::sample`].
    pub split_hot_keys: Option<Option<usize>>,
    /// The options of the output: its folder, format and settings.
    pub output: OutputOptions,
    /// The number of worker threads, at least one.
    pub threads: usize,
    /// The memory that the run may use, in bytes; see [`Job::memory_limit`]. At least 16 MiB: pages
    /// and buffers may take that much under any limit.
    pub memory_limit: usize,
}

/// The placement of rows.
#[derive(Clone, Debug)]
pub enum PlacementChoice {
    /// By the given rule.
    By(PlacementSpec),
    /// By ranges whose split points are found in a sample; see [`sample_ranges`]. An append uses
    /// the split points of the existing dataset.
    SampledRanges,
}

impl JobSpec {
    /// Returns the specification of a job on one thread, with 1 GiB of memory, that places rows by
    /// hash as DataFusion does. [`by`](Self::by) and [`into`](Self::into) must be set afterwards.
    pub fn new(inputs: Vec<String>, output: OutputOptions) -> Self {
        Self {
            inputs,
            input: InputOptions::default(),
            by: Vec::new(),
            into: None,
            placing: PlacementChoice::By(PlacementSpec::HashOfValues),
            sort_by: Vec::new(),
            hot_key_share: DEFAULT_HOT_SHARE,
            split_hot_keys: None,
            output,
            threads: 1,
            memory_limit: DEFAULT_MEMORY,
        }
    }

    /// Opens the inputs, and finds split points and hot keys in samples if the options ask for
    /// them.
    ///
    /// # Errors
    /// If the inputs cannot be read, or options contradict them or each other.
    pub fn plan(self) -> Result<Job, DatasetError> {
        if matches!(self.placing, PlacementChoice::By(PlacementSpec::RoundRobin)) && !self.by.is_empty() {
            return Err(DatasetError::Config {
                option: DatasetOption::By,
                value: format!("'{}' together with {}", columns_text(&self.by), DatasetOption::RoundRobin),
                remedy: "rows that are placed in turn have no key; leave one of the two out".to_owned(),
            });
        }
        if self.memory_limit < SMALL_SPILL_BYTES {
            let mib = SMALL_SPILL_BYTES >> 20;
            return Err(DatasetError::Config {
                option: DatasetOption::MemoryLimit,
                value: format!("{} bytes", self.memory_limit),
                remedy: format!("batches, pages and open files take more than that; allow at least {mib}M"),
            });
        }
        let into = self.partitions()?;
        let dataset = Dataset::open(&self.inputs, &self.input)?;
        let is_there = |column: &str| type_of_column(&dataset.schema, column).is_some();
        if let Some((column, _)) = self.input.types.columns.iter().find(|(column, _)| !is_there(column)) {
            return Err(DatasetError::Config {
                option: DatasetOption::Types,
                value: format!("a type for column '{column}'"),
                remedy: "the inputs have no column of that name; check the name".to_owned(),
            });
        }
        let spec = match &self.placing {
            PlacementChoice::By(spec) => spec.clone(),
            PlacementChoice::SampledRanges => match self.splits_of_dataset(&dataset.schema)? {
                Some(splits) => splits,
                None => sample_ranges(&dataset, &self.by, into)?,
            },
        };
        let placement = Placement::new(&spec, &dataset.schema, &self.by, into)?;
        let hot_files = match self.split_hot_keys {
            Some(files) => HotFiles::sample(&dataset, &spec, &self.by, into, self.hot_key_share, files)?,
            None => HotFiles::default(),
        };
        Ok(Job {
            sort_by: self.sort_by,
            hot_files,
            hot_key_share: self.hot_key_share,
            threads: self.threads,
            memory_limit: self.memory_limit,
            quarantine: self.input.on_bad_row == BadRows::Quarantine,
            ..Job::new(dataset, placement, self.by, self.output)
        })
    }

    /// Returns the split points of the dataset that the run appends to, if it appends to one that
    /// has any.
    fn splits_of_dataset(&self, schema: &SchemaRef) -> Result<Option<PlacementSpec>, DatasetError> {
        let appends = self.output.existing.appends();
        let manifest = appends.then(|| Manifest::find_in(&self.output.dir)).flatten();
        match manifest.as_ref().and_then(|manifest| manifest.settings.partition()) {
            Some(settings) => splits_of(&settings.placement, schema, &self.by),
            None => Ok(None),
        }
    }

    /// Returns the number of partitions, after checking that the other options allow it.
    fn partitions(&self) -> Result<usize, DatasetError> {
        let refused = |option, value: String, remedy: &str| {
            Err(DatasetError::Config { option, value, remedy: remedy.to_owned() })
        };
        let by_value = DatasetOption::ByValue;
        match (matches!(self.placing, PlacementChoice::By(PlacementSpec::Values)), self.into) {
            (true, Some(into)) => {
                let remedy = "each value has a folder of its own, whatever their number; leave one of the two out";
                refused(DatasetOption::Into, format!("{into} together with {by_value}"), remedy)
            }
            (true, None) if self.split_hot_keys.is_some() => {
                let remedy = "no partition has several keys; leave one of the two out";
                refused(DatasetOption::SplitHotKeys, format!("given together with {by_value}"), remedy)
            }
            (true, None) => Ok(VALUE_BUCKETS),
            (false, Some(into)) => Ok(into),
            (false, None) => refused(DatasetOption::Into, "not given".to_owned(), "give a number of partitions"),
        }
    }
}
