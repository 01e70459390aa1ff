//! Threads of a join that panic, or cannot be started.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, Stdio},
    sync::{Arc, mpsc::channel},
    thread,
    time::Duration,
};

use annulus_cyclo::{Condition, CycloError, JoinSpec, Share};
use annulus_join::{
    output::OutputSpec,
    types::{JoinType, Side},
};
use annulus_roundabout::{config::Config, host::Host, link::alone::Alone, ring::Place};
use arrow::{
    array::{Int32Array, RecordBatch},
    datatypes::{DataType, Field, Schema, SchemaRef},
};

const CHILD: &str = "ANNULUS_TEST_THREADS";

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("key", DataType::Int32, true)]))
}

fn rows(count: i32) -> Vec<RecordBatch> {
    let keys: Int32Array = (0..count).map(Some).collect();
    vec![RecordBatch::try_new(schema(), vec![Arc::new(keys)]).unwrap()]
}

/// All pairs of two tables of so many rows, by so many threads.
fn share(count: i32, threads: usize) -> Share {
    let spec = JoinSpec {
        output: OutputSpec {
            join: JoinType::Inner,
            build: Side::Left,
            left: schema(),
            right: schema(),
            left_columns: vec![0],
            right_columns: vec![0],
            filter: None,
        },
        condition: Condition::Any,
        fragment_bytes: 4096,
        threads,
    };
    Share::prepare(&spec, rows(count), rows(count)).unwrap()
}

fn host() -> Host {
    let config = Config { fragment_bytes: 4096, ..Config::default() };
    Host::start(Place::new(0, 1).unwrap(), config, |_| Alone::open(&config)).unwrap()
}

/// A panic of a helper is said by the error that there is for it.
#[test]
fn a_panic_of_a_helper_is_an_error() {
    let (done, is_done) = channel();
    thread::spawn(move || {
        let turned = catch_unwind(AssertUnwindSafe(|| {
            let emit = |thread, _| {
                assert!(thread != 1, "a helper cannot go on");
                Ok(())
            };
            share(2000, 2).turn(&mut host(), &emit).map(drop)
        }));
        done.send(turned.map_err(drop)).unwrap();
    });
    let turned = is_done.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(matches!(turned, Ok(Err(CycloError::Panicked))), "{turned:?}");
}

/// Not a test: a join whose second helper finds no room for its stack.
#[test]
#[ignore = "started by the one below"]
fn without_threads() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    // Without rows, so that preparing needs no threads.
    let turned = catch_unwind(AssertUnwindSafe(|| {
        let share = share(0, 8);
        share.turn(&mut host(), &|_, _| Ok(())).map(drop)
    }));
    println!("ended {}", turned.is_err());
}

/// The operating system gives one thread and not the next: the turn ends nevertheless.
#[test]
fn threads_that_cannot_be_started_are_no_hang() {
    // Address space for two or three stacks, and not for seven.
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -v 3145728; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "without_threads", "--ignored", "--nocapture", "--test-threads=1"])
        .env("RUST_MIN_STACK", (1_u64 << 30).to_string())
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let (done, is_done) = channel();
    thread::spawn(move || done.send(std::io::read_to_string(output).unwrap()));
    let said = is_done.recv_timeout(Duration::from_secs(20));
    let _ = child.kill();
    child.wait().unwrap();
    assert!(said.as_ref().is_ok_and(|said| said.contains("ended")), "{said:?}");
}
