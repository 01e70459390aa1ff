//! Tables of random rows, partitioned, and sessions that query them.

use std::{fs::File, path::Path, sync::Arc};

use annulus_datafusion::{AnnulusConfig, DatasetTable, SessionStateBuilderExt, register_dataset};
use annulus_dataset::{
    CancelToken, ExistingPolicy, InputOptions, JobSpec, NoProgress, OutputFormat, OutputOptions, PlacementChoice,
    PlacementSpec, split,
};
use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    ipc::writer::FileWriter,
    util::pretty::pretty_format_batches,
};
use datafusion::{
    execution::SessionStateBuilder,
    physical_plan::displayable,
    prelude::{SessionConfig, SessionContext},
};
use rand::{Rng, rngs::StdRng};
use tempfile::TempDir;

/// Returns rows with an integer key `k` and a text key `t` of about `keys` values each, some of
/// them null, and a value `v` that is different in each row.
pub fn rows(random: &mut StdRng, rows: usize, keys: i64) -> RecordBatch {
    let mut key = || (!random.random_ratio(1, 20)).then(|| random.random_range(0..keys));
    let numbers: Vec<Option<i64>> = (0..rows).map(|_| key()).collect();
    let texts: Vec<Option<String>> =
        (0..rows).map(|_| key().map(|key| format!("{key} is the number of a key"))).collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("k", Arc::new(Int64Array::from(numbers))),
        ("t", Arc::new(StringArray::from(texts))),
        ("v", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

/// How a table is partitioned.
#[derive(Clone, Debug)]
pub struct Split {
    pub by: &'static [&'static str],
    pub into: usize,
    pub format: OutputFormat,
    pub placing: Option<PlacementSpec>,
    pub split_hot_keys: bool,
    pub existing: ExistingPolicy,
}

/// Returns the default way of partitioning by a key.
pub fn by(by: &'static [&'static str], into: usize) -> Split {
    let format = OutputFormat::Parquet;
    Split { by, into, format, placing: None, split_hot_keys: false, existing: ExistingPolicy::Refuse }
}

/// A folder of tables.
pub struct Tables(TempDir);

impl Tables {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a UTF-8 path").to_owned()
    }

    pub fn at(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Writes rows to a file that is not partitioned, and returns its path.
    pub fn plain(&self, name: &str, rows: &RecordBatch) -> String {
        let path = self.path(&format!("{name}.arrow"));
        write_ipc(Path::new(&path), rows);
        path
    }

    /// Partitions rows into the folder `name`, and returns its path.
    pub fn split(&self, name: &str, rows: &RecordBatch, split: &Split) -> String {
        let input = self.plain(&format!("{name}-input"), rows);
        self.split_file(name, input, split)
    }

    pub fn split_file(&self, name: &str, input: String, how: &Split) -> String {
        let mut output = OutputOptions::new(self.path(name), how.format);
        output.existing = how.existing;
        let mut spec = JobSpec::new(vec![input], output);
        spec.by = how.by.iter().map(|&key| key.to_owned()).collect();
        spec.into = Some(how.into);
        spec.memory_limit = 64 << 20;
        spec.split_hot_keys = how.split_hot_keys.then_some(Some(3));
        if let Some(placing) = &how.placing {
            spec.placing = PlacementChoice::By(placing.clone());
        }
        split(&spec.plan().expect("a plan"), &NoProgress, &CancelToken::new()).expect("a dataset");
        self.path(name)
    }
}

fn write_ipc(path: &Path, rows: &RecordBatch) {
    let mut writer = FileWriter::try_new(File::create(path).expect("create"), &rows.schema()).expect("a writer");
    writer.write(rows).expect("write");
    writer.finish().expect("finish");
}

/// A session with Annulus, whose hash joins are partitioned whatever the size of their inputs.
pub fn session(targets: usize) -> SessionContext {
    session_with(targets, |_| ())
}

/// As `session`, with changed options.
pub fn session_with(targets: usize, change: impl FnOnce(&mut SessionConfig)) -> SessionContext {
    let mut config =
        SessionConfig::new().with_target_partitions(targets).with_option_extension(AnnulusConfig::default());
    let optimizer = &mut config.options_mut().optimizer;
    (optimizer.hash_join_single_partition_threshold, optimizer.hash_join_single_partition_threshold_rows) = (0, 0);
    change(&mut config);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    SessionContext::new_with_state(builder.with_annulus().build())
}

pub async fn register(context: &SessionContext, name: &str, path: &str) -> Arc<DatasetTable> {
    register_dataset(context, name, path, &InputOptions::default()).await.expect(name)
}

/// Returns the physical plan of a query as text.
pub async fn plan(context: &SessionContext, query: &str) -> String {
    let plan = context.sql(query).await.expect(query).create_physical_plan().await.expect(query);
    displayable(plan.as_ref()).indent(false).to_string()
}

/// Returns the lines of a query's result, in order.
pub async fn answer(context: &SessionContext, query: &str) -> Vec<String> {
    let rows = context.sql(query).await.expect(query).collect().await;
    let rows = rows.unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut lines: Vec<String> =
        pretty_format_batches(&rows).expect("text").to_string().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Returns how many times `word` is in `text`.
pub fn count(text: &str, word: &str) -> usize {
    text.matches(word).count()
}
