//! Scans of units for another process, which opens the dataset when it reads it.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
    sync::{Arc, OnceLock},
};

use annulus_dataset::{Dataset, DatasetError, InputOptions, Origin, absolute_path};
use arrow::{
    datatypes::SchemaRef,
    ipc::{reader::StreamReader, writer::StreamWriter},
};
use datafusion::{
    common::exec_err,
    datasource::source::DataSourceExec,
    error::{DataFusionError, Result},
    physical_plan::ExecutionPlan,
};
use serde::{Deserialize, Serialize};

use super::units::UnitSource;

/// The files that a process reads for others.
pub trait ReadAccess: fmt::Debug + Send + Sync {
    /// Checks files, folders and globs, before they are looked at.
    ///
    /// # Errors
    /// If one is refused.
    fn check_inputs(&self, inputs: &[String]) -> Result<()>;

    /// Checks a file that an input has expanded to.
    ///
    /// # Errors
    /// If it is refused.
    fn check_file(&self, path: &Path) -> Result<()>;
}

/// A scan of units of a [`DatasetTable`](super::DatasetTable), as it travels to another process that has
/// the same files at the same paths.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UnitScan {
    pub(super) dataset: SentDataset,
    /// The columns by whose hash the partitions are declared.
    pub(super) keys: Option<Vec<usize>>,
    /// The units of each partition.
    pub(super) groups: Vec<Vec<usize>>,
    /// Whether each process has other files, of which it reads all units.
    pub(super) of_each: bool,
    /// The columns of the dataset that are read.
    pub(super) columns: Vec<usize>,
    /// The most rows of a partition.
    pub(super) fetch: Option<usize>,
}

impl UnitScan {
    /// Returns the scan of units that `plan` is. `None` if it is another operator, or another process cannot
    /// read as it does: it names the files of its rows, or reads a stream.
    pub fn from_plan(plan: &dyn ExecutionPlan) -> Option<Self> {
        UnitSource::find_in(plan)?.sent()
    }

    /// Returns the files, folders and globs that are read, as absolute paths.
    pub fn inputs(&self) -> &[String] {
        &self.dataset.inputs
    }

    /// Returns the scan for this process, which opens files that `access` allows when the first partition is
    /// read. Then it fails if they are not those that the scan was planned for.
    ///
    /// # Errors
    /// If it has columns that the dataset does not have.
    pub fn into_plan(self, access: Arc<dyn ReadAccess>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(DataSourceExec::from_data_source(UnitSource::received(self, access)?))
    }
}

/// Returns whether `plan` is a scan of a table [of each process](super::DatasetTable::of_each_process).
pub fn is_of_each_process(plan: &dyn ExecutionPlan) -> bool {
    UnitSource::find_in(plan).is_some_and(UnitSource::is_of_each)
}

/// Returns the bytes of the files that a scan of units reads; `None` if `plan` is another operator.
pub fn unit_bytes(plan: &dyn ExecutionPlan) -> Option<u64> {
    Some(UnitSource::find_in(plan)?.bytes().into_iter().sum())
}

/// Divides a scan of units among `tasks` tasks: all have the same number of partitions, some of which may be
/// empty. `None` if `plan` is another operator.
pub fn divide_units(plan: &dyn ExecutionPlan, tasks: usize) -> Option<Vec<Arc<dyn ExecutionPlan>>> {
    let parts = UnitSource::find_in(plan)?.divided(tasks);
    Some(parts.into_iter().map(|part| DataSourceExec::from_data_source(part) as _).collect())
}

/// A dataset, as another process opens it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SentDataset {
    inputs: Vec<String>,
    options: InputOptions,
    /// The columns, as a stream of Arrow without rows.
    schema: Vec<u8>,
    /// A hash of the names and sizes of all files.
    outline: u64,
    /// The format of the first file.
    pub(super) format: String,
}

impl SentDataset {
    /// `None` for a stream.
    pub(super) fn from_dataset(dataset: &Dataset) -> Option<Self> {
        let Origin { inputs, options } = dataset.origin.as_ref()?;
        let absolute = |input: &String| absolute_path(Path::new(input)).ok()?.into_os_string().into_string().ok();
        let inputs = inputs.iter().map(absolute);
        let schema = StreamWriter::try_new(Vec::new(), &dataset.schema).and_then(StreamWriter::into_inner);
        Some(Self {
            inputs: inputs.collect::<Option<_>>()?,
            options: options.clone(),
            schema: schema.ok()?,
            outline: outline(dataset),
            format: dataset.files.first()?.format.name().to_owned(),
        })
    }

    pub(super) fn schema(&self) -> Result<SchemaRef> {
        Ok(StreamReader::try_new(&self.schema[..], None)?.schema())
    }

    fn open(&self, access: &dyn ReadAccess, are_same: bool) -> Result<Dataset> {
        access.check_inputs(&self.inputs)?;
        let check = |file: &Path| access.check_file(file).map_err(OpenError);
        let schema = self.schema()?;
        // Files that only this process has may lack columns.
        let like = (!are_same).then(|| Arc::clone(&schema));
        let dataset = Dataset::open_like(&self.inputs, &self.options, like, check).map_err(|OpenError(error)| error)?;
        let are_others = are_same && outline(&dataset) != self.outline;
        if are_others || dataset.schema.fields() != schema.fields() {
            return exec_err!(
                "the files of '{}' differ from those that the query was planned with: they have changed, or this \
                 machine has others",
                self.inputs.join(" ")
            );
        }
        Ok(dataset)
    }
}

/// An error of opening a dataset.
struct OpenError(DataFusionError);

impl From<DatasetError> for OpenError {
    fn from(error: DatasetError) -> Self {
        Self(DataFusionError::External(error.into()))
    }
}

/// Hashes what other machines see of the files, too: names and sizes, not paths and times.
fn outline(dataset: &Dataset) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in &dataset.files {
        (Path::new(&file.path).file_name(), file.bytes).hash(&mut hasher);
    }
    dataset.units.len().hash(&mut hasher);
    hasher.finish()
}

/// A dataset that another process has opened, and this one may not have opened yet.
#[derive(Debug)]
pub(super) struct ReceivedDataset {
    pub(super) sent: SentDataset,
    access: Arc<dyn ReadAccess>,
    /// Whether the files are those that the other process has seen.
    are_same: bool,
    opened: OnceLock<std::result::Result<Arc<Dataset>, Arc<DataFusionError>>>,
}

impl ReceivedDataset {
    pub(super) fn new(sent: SentDataset, access: Arc<dyn ReadAccess>, are_same: bool) -> Self {
        Self { sent, access, are_same, opened: OnceLock::new() }
    }

    /// Opens the dataset, or waits until another thread has.
    ///
    /// # Errors
    /// If a file is refused, cannot be read, or is another one.
    pub(super) fn dataset(&self) -> Result<Arc<Dataset>> {
        let open = || self.sent.open(self.access.as_ref(), self.are_same).map(Arc::new).map_err(Arc::new);
        let opened = self.opened.get_or_init(open);
        opened.clone().map_err(DataFusionError::Shared)
    }
}
