//! Grouping sets of keys that are constant, or sorted, against one partition.

use datafusion::prelude::SessionContext;

mod common;
use common::queries::{run, session, shown, sorted_rows};

async fn table(partitions: usize) -> SessionContext {
    let context = session(partitions, None);
    run(&context, "CREATE TABLE t AS SELECT value AS id, value % 3 AS k, value % 50 AS g FROM range(5000)").await;
    context
}

/// DataFusion takes the constant for the value of all rows, though subtotals have null there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_group_is_there_twice() {
    let (one, several) = (table(1).await, table(4).await);
    for query in [
        "SELECT k, id, count(*), sum(g) FROM t WHERE k = 1 GROUP BY ROLLUP(k, id)",
        "SELECT k, id, count(*) FROM t WHERE k = 1 GROUP BY CUBE(id, k)",
        "SELECT a.k, b.id, count(*) FROM t a JOIN t b ON a.id = b.id WHERE a.k = 2
         GROUP BY GROUPING SETS ((a.k), (b.id), ())",
        "SELECT g, id, count(*) FROM (SELECT * FROM t ORDER BY g LIMIT 4000) GROUP BY ROLLUP(g, id)",
    ] {
        let expected = sorted_rows(&one, query).await;
        for _ in 0..3 {
            assert_eq!(sorted_rows(&several, query).await, expected, "{query}");
        }
    }
    let plain = shown(&several, "SELECT k, id, count(*) FROM t GROUP BY ROLLUP(k, id)").await;
    assert!(!plain.contains("UnorderedExec"), "{plain}");
}
