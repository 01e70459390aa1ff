//! NaN and both zeros on workers, whatever the statistics of Parquet files say.

mod common;

use std::{fs::File, path::Path, sync::Arc, time::Duration};

use annulus_datafusion::SessionStateBuilderExt;
use annulus_distributed::{Connections, ResidentStatement, ResidentTables};
use common::{Cluster, rows};
use datafusion::{
    arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch},
    execution::SessionStateBuilder,
    parquet::{
        arrow::ArrowWriter,
        file::properties::{EnabledStatistics, WriterProperties},
    },
    prelude::{ParquetReadOptions, SessionContext},
    sql::sqlparser::dialect::GenericDialect,
};
use tempfile::TempDir;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(60);
const BELOW: f64 = f64::from_bits(0xfff8 << 48);

/// The files of a table: of one number and NaN, of all kinds of values, of NaN, and of -0.0.
const FILES: [&[f64]; 4] =
    [&[1.0, f64::NAN, 1.0], &[0.0, f64::NAN, 1.0, 2.0, BELOW, -5.0], &[f64::NAN, f64::NAN], &[-0.0, 1.0, 2.0, -1.0]];

const QUERIES: [&str; 10] = [
    "SELECT i, x FROM T",
    "SELECT min(x), max(x), count(x), count(DISTINCT x) FROM T",
    "SELECT i, x FROM T WHERE x > 5",
    "SELECT i, x FROM T WHERE x < -100",
    "SELECT i, x FROM T WHERE x = 0.0",
    "SELECT i, x FROM T WHERE x IN (0.0, 7.0)",
    "SELECT i, x FROM T WHERE isnan(x)",
    "SELECT x, count(*) FROM T GROUP BY x",
    "SELECT x FROM T ORDER BY x DESC LIMIT 6",
    "SELECT k.i, t.i FROM (SELECT i, x FROM T WHERE i IN (100, 101)) k JOIN T t ON k.x = t.x",
];

/// Writes the files of a table to `folder`, with all that files may say of them.
fn write_floats(folder: &Path) -> RecordBatch {
    let rows = |first: i64, values: &[f64]| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + values.len() as i64));
        let values: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        RecordBatch::try_from_iter_with_nullable([("i", numbers, true), ("x", values, true)]).unwrap()
    };
    let (mut numbers, mut all) = (Vec::<i64>::new(), Vec::<f64>::new());
    for (file, values) in FILES.into_iter().enumerate() {
        let first = file as i64 * 100;
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(2))
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_bloom_filter_enabled(true)
            .build();
        let (rows, file) = (rows(first, values), File::create(folder.join(format!("{file}.parquet"))).unwrap());
        let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        numbers.extend(first..first + values.len() as i64);
        all.extend(values);
    }
    let columns: [(&str, ArrayRef); 2] =
        [("i", Arc::new(Int64Array::from(numbers))), ("x", Arc::new(Float64Array::from(all)))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

async fn check(one: &SessionContext, many: &SessionContext, name: &str) {
    for query in QUERIES {
        let right = rows(one, &query.replace(" T", " m")).await.unwrap();
        let found = timeout(LONG, rows(many, &query.replace(" T", name))).await.unwrap();
        assert_eq!(found.unwrap_or_else(|error| panic!("{query}: {error}")), right, "{name}: {query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_read_nan_and_zeros_as_one_process_does() {
    let folder = TempDir::new().unwrap();
    let all = write_floats(folder.path());
    // In memory, where no statistics are believed; DataFusion alone would count both zeros.
    let one = SessionStateBuilder::new().with_default_features().with_annulus().build();
    let one = SessionContext::new_with_state(one);
    one.register_batch("m", all).unwrap();
    let cluster = Cluster::start(2).await;
    for settings in [vec![], vec![("annulus.joins", "never")], vec![("annulus.joins", "always")]] {
        let many = cluster.session(&settings).await;
        let path = folder.path().to_str().unwrap();
        many.register_parquet("t", path, ParquetReadOptions::default()).await.unwrap();
        check(&one, &many, " t").await;
        let tables = ResidentTables::new(cluster.workers.clone(), Connections::default());
        tables.install(&many).unwrap();
        let make = "CREATE RESIDENT TABLE r PARTITIONED BY (x) AS SELECT i, x FROM t WHERE i >= 0";
        let drop = "DROP RESIDENT TABLE r";
        for (text, is_made) in [(make, true), (drop, false)] {
            let statement = ResidentStatement::parse(text, &GenericDialect {}).unwrap().unwrap();
            timeout(LONG, tables.run(&many, statement)).await.unwrap().unwrap();
            if is_made {
                check(&one, &many, " resident.r").await;
            }
        }
    }
}
