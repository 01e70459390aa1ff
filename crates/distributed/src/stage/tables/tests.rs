use std::{fmt::Write, fs, path::Path};

use annulus_datafusion::register_dataset;
use annulus_dataset::{CancelToken, InputOptions, JobSpec, NoProgress, OutputFormat, OutputOptions, split};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    execution::SessionStateBuilder,
    prelude::{SessionConfig, SessionContext},
};

use super::*;
use crate::{Connections, SessionStateBuilderExt, Workers};

/// Writes a table of two hundred keys in five partitions, and returns its path.
fn write(folder: &Path, name: &str) -> String {
    let path = |name: &str| folder.join(name).display().to_string();
    let rows = (0..200).fold("k,v\n".to_owned(), |mut rows, key| {
        writeln!(rows, "{key},{}", key * 7).unwrap();
        rows
    });
    fs::write(path("rows.csv"), rows).unwrap();
    let mut spec = JobSpec::new(vec![path("rows.csv")], OutputOptions::new(path(name), OutputFormat::Parquet));
    spec.by = vec!["k".to_owned()];
    spec.into = Some(5);
    split(&spec.plan().unwrap(), &NoProgress, &CancelToken::new()).unwrap();
    path(name)
}

/// Returns the workers of the tasks of the only stage of a query.
async fn workers_of(folder: &Path, workers: &str, query: &str) -> Vec<String> {
    let workers: Workers = workers.parse().unwrap();
    let builder = SessionStateBuilder::new().with_default_features();
    let builder = builder.with_config(SessionConfig::new().with_target_partitions(2));
    let context = SessionContext::new_with_state(builder.with_annulus_workers(workers, Connections::default()).build());
    context.sql("SET distributed.file_scan_config_bytes_per_partition = 1").await.unwrap();
    for name in ["a", "b"] {
        let path = folder.join(name).display().to_string();
        register_dataset(&context, name, &path, &InputOptions::default()).await.unwrap();
    }
    let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
    let mut urls = Vec::new();
    plan.apply(|node| {
        if let Some(boundary) = node.as_network_boundary() {
            let (plan, task_count) =
                (boundary.input_stage().local_plan().unwrap(), boundary.input_stage().task_count());
            let event = RouteTasksEvent { task_ctx: context.task_ctx(), plan, task_count };
            urls.extend(route_tables(event).unwrap().unwrap().urls);
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    urls.iter().map(Url::to_string).collect()
}

/// Workers read the same partitions of all tables in all queries. Without one of them, the others read its partitions.
#[tokio::test]
async fn partitions_have_the_same_worker_in_each_query() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["a", "b"] {
        write(folder, name);
    }
    let join = "SELECT a.k, sum(b.v) FROM a JOIN b ON a.k = b.k GROUP BY a.k";
    let all = workers_of(folder, "h:1,h:2,h:3,h:4", join).await;
    assert_eq!(all.len(), 4);
    for (list, query) in [
        ("h:1,h:2,h:3,h:4", "SELECT k, count(*) FROM a GROUP BY k"),
        ("h:3,h:1,h:4,h:2", "SELECT k, max(v) FROM b GROUP BY k"),
        ("h:4,h:3,h:2,h:1", join),
    ] {
        assert_eq!(workers_of(folder, list, query).await, all, "{query}");
    }
    let others = workers_of(folder, "h:4,h:2,h:1", join).await;
    assert_eq!(others, ["http://h:1/", "http://h:2/", "http://h:4/"]);
    // No more tasks than partitions.
    assert_eq!(workers_of(folder, "h:1,h:2,h:3,h:4,h:5,h:6,h:7", join).await.len(), 5);
}
