//! What commands say of workers that are not there, speak TLS or not, or may not read a file.
#![cfg(target_os = "linux")]

mod support;

use std::{fs, net::TcpListener, path::Path};

use support::{
    Annulus,
    workers::{TINY, certificates, list, worker},
};

fn sql(folder: &Path, workers: &str, more: &[&str]) -> Annulus {
    Annulus::new(["sql", "--format", "csv", "--workers", workers].iter().chain(more)).at(folder).temp(folder)
}

/// Creates `data` with four small files.
fn write_data(folder: &Path) {
    fs::create_dir(folder.join("data")).expect("a folder");
    for part in 0..4 {
        let file = format!("data/{part}.parquet");
        Annulus::new(["sql", "SELECT value AS id FROM range(100)", "-o", &file]).at(folder).succeeds();
    }
}

/// Returns an address at which nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

const GROUPED: &str = "SELECT id % 3 AS k, count(*) AS n FROM 'data' GROUP BY 1 ORDER BY 1";

#[test]
fn a_worker_that_speaks_tls_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_data(at);
    certificates(&at.join("certs"), "demo", &["alpha", "beta"]);
    let start = |name: &str| worker(at, &["--certificates", &format!("certs/host-{name}.pem"), "--allow-read", "data"]);
    let secure = [start("alpha"), start("beta")];
    let plain = [worker(at, &["--allow-read", "data"]), worker(at, &["--allow-read", "data"])];
    for (workers, more, expected) in [
        (list(&secure), &[][..], "the worker speaks TLS"),
        (list(&plain), &["--certificates", "certs"], "the worker does not speak TLS"),
    ] {
        let mut ping = vec!["worker", "ping", "--workers", &workers];
        ping.extend(more);
        let done = Annulus::new(&ping).at(at).fails();
        let said = done.stdout.matches(expected).count();
        assert!(said == 2 && done.stdout.contains("--certificates"), "{}", done.stdout);
        let mut status = vec!["worker", "status", "--workers", &workers];
        status.extend(more);
        let done = Annulus::new(&status).at(at).fails();
        assert!(done.stdout.contains(expected) && done.stdout.contains("--certificates"), "{}", done.stdout);
        for query in ["SELECT 1", GROUPED] {
            let done = sql(at, &workers, &[&TINY[..], more, &[query]].concat()).fails();
            assert!(done.stderr.contains(expected) && done.stderr.contains("--certificates"), "{}", done.stderr);
        }
    }
}

#[test]
fn workers_that_are_not_there_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_data(at);
    let gone = nobody();
    let small = "SELECT count(*) AS n FROM 'data/0.parquet'";
    let error = sql(at, &gone, &[small]).fails().stderr;
    assert!(error.contains(&gone) && error.contains("no worker answers"), "{error}");
    // A worker that is there, and one that is not.
    let alive = worker(at, &["--allow-read", "data"]);
    let both = format!("{},{gone}", alive.1);
    let done = sql(at, &both, &[small]).succeeds();
    assert_eq!(done.stdout, "n\n100\n");
    assert!(done.stderr.contains("note: worker") && done.stderr.contains(&gone), "{}", done.stderr);
    assert!(done.stderr.contains("queries run on the others"), "{}", done.stderr);
    assert!(!done.stderr.contains(&alive.1), "{}", done.stderr);
    let done = sql(at, &alive.1, &[small]).succeeds();
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("n\n100\n", ""));
}

#[test]
fn files_that_workers_may_not_read_are_refused_also_if_they_are_small() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_data(at);
    fs::create_dir(at.join("other")).expect("a folder");
    fs::copy(at.join("data/0.parquet"), at.join("other/x.parquet")).expect("a copy");
    fs::write(at.join("other/x.csv"), "id\n1\n").expect("write");
    let workers = [worker(at, &["--allow-read", "data"]), worker(at, &["--allow-read", "data"])];
    let workers = list(&workers);
    for file in ["other/x.parquet", "other/x.csv"] {
        let query = format!("SELECT id % 3 AS k, count(*) FROM '{file}' GROUP BY 1");
        for more in [&[][..], &TINY] {
            let error = sql(at, &workers, &[more, &[&query]].concat()).fails().stderr;
            assert!(error.contains("the worker refuses") && error.contains("--allow-read"), "{file}: {error}");
        }
        // To explain is not to read.
        sql(at, &workers, &[&format!("EXPLAIN {query}")]).succeeds();
    }
    let done = sql(at, &workers, &["SELECT count(*) AS n FROM 'data/../data/1.parquet'"]).succeeds();
    assert_eq!(done.stdout, "n\n100\n");
}

#[test]
fn a_lost_table_is_made_again_by_the_statement_that_the_error_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_data(at);
    let workers: Vec<_> = (0..3).map(|_| worker(at, &["--allow-read", "data"])).collect();
    let all = list(&workers);
    let make = "CREATE RESIDENT TABLE orders PARTITIONED BY (id, \"K\") AS SELECT id, id % 3 AS \"K\" FROM 'data'";
    sql(at, &all, &[&TINY[..], &[make]].concat()).succeeds();
    let listed = sql(at, &all, &["SHOW TABLES"]).succeeds().stdout;
    let expected = "table_catalog,table_schema,table_name,table_type\ndatafusion,resident,orders,BASE TABLE\n";
    assert_eq!(listed, expected);
    let mut workers = workers.into_iter();
    drop(workers.next());
    let error = sql(at, &all, &["SELECT count(*) FROM resident.orders"]).fails().stderr;
    let again =
        "CREATE OR REPLACE RESIDENT TABLE orders PARTITIONED BY (id, \"K\") AS SELECT id, id % 3 AS \"K\" FROM 'data'";
    assert!(error.contains(again), "{error}");
    let rest: Vec<_> = workers.collect();
    sql(at, &list(&rest), &[&TINY[..], &[again]].concat()).succeeds();
    let done = sql(at, &list(&rest), &["SELECT count(*) AS n FROM resident.orders"]).succeeds();
    assert_eq!(done.stdout, "n\n400\n");
}
