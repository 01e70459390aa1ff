//! Threads of a join that panic, or cannot be started. Hosts that cannot get their parts, or cannot
//! output their results.

use std::{
    num::NonZeroUsize,
    os::unix::net::UnixListener,
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use annulus_cyclo::{Condition, CycloError, JoinSpec, RowSink, RowSource, Share, StoreConfig, Supply};
use annulus_join::{CancelToken, JoinError, JoinType, KeyFilterKind, OutputSpec, Partitions, Side, Sides};
use annulus_roundabout::{Address, Host, HostBuilder, RingConfig, RingPosition};
use arrow::{
    array::{ArrayRef, Int32Array, RecordBatch, StringArray},
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

/// Returns a share that joins all pairs of two tables of `count` rows on `threads` threads.
fn share(count: i32, threads: usize) -> Share {
    Share::prepare(&spec(Condition::Any(None), threads), rows(count), rows(count)).unwrap()
}

fn spec(condition: Condition, threads: usize) -> JoinSpec {
    JoinSpec::new(
        OutputSpec::new(JoinType::Inner, Side::Left, Sides { left: schema(), right: schema() })
            .with_columns(Sides { left: vec![0], right: vec![0] }),
        condition,
        4096,
    )
    .with_threads(threads)
}

fn host() -> Host {
    Host::single_host(&RingConfig::default().with_fragment_bytes(4096)).unwrap()
}

/// A panic of a helper is reported by its own error.
#[test]
fn a_panic_of_a_helper_is_an_error() {
    let (done, is_done) = channel();
    thread::spawn(move || {
        let joined = catch_unwind(AssertUnwindSafe(|| {
            let emit = |thread, _| {
                assert!(thread != 1, "a helper cannot go on");
                Ok(())
            };
            share(2000, 2).revolve(&mut host(), &emit).map(drop)
        }));
        done.send(joined.map_err(drop)).unwrap();
    });
    let joined = is_done.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(matches!(joined, Ok(Err(CycloError::Panicked))), "{joined:?}");
}

/// Not a test: a join whose second helper finds no room for its stack.
#[test]
#[ignore = "started by the one below"]
fn without_threads() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    // Without rows, so that preparing needs no threads.
    let joined = catch_unwind(AssertUnwindSafe(|| {
        let share = share(0, 8);
        share.revolve(&mut host(), &|_, _| Ok(())).map(drop)
    }));
    println!("ended {}", joined.is_err());
}

/// The operating system starts one thread and refuses the next. The join ends nevertheless.
#[test]
fn threads_that_cannot_be_started_are_no_hang() {
    // Address space for two or three stacks, but not for seven.
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

/// Runs three hosts with the same number of rows, as threads of this process. Returns how the part
/// of each ended.
fn three_hosts(
    join: impl Fn(RingPosition, Share, &mut Host) -> Result<(), CycloError> + Sync,
) -> Vec<Result<(), String>> {
    let folder = tempfile::tempdir().unwrap();
    let path = |host: u16| folder.path().join(format!("host-{host}"));
    let listeners: Vec<_> = (0..3).map(|me| UnixListener::bind(path(me)).unwrap()).collect();
    thread::scope(|scope| {
        let start = |(me, listener)| {
            let (join, path) = (&join, &path);
            scope.spawn(move || {
                let position = RingPosition::new(me, 3).unwrap();
                let timeout = Duration::from_secs(60);
                let config = RingConfig::default()
                    .with_fragment_bytes(4096)
                    .with_places(2)
                    .with_own(1)
                    .with_timeout(timeout)
                    .with_connect_timeout(timeout);
                let address = Address::Unix { listener, successor: path(position.successor().0) };
                let mut host = Host::join_ring(HostBuilder::new(position, 1, address).with_config(&config)).unwrap();
                let partitions = Partitions::at_least(4);
                let condition = Condition::Hash { build: vec![0], probe: vec![0], nulls_equal: false, partitions };
                let share = Share::prepare(&spec(condition, 2), rows(2000), rows(8000)).unwrap();
                let ended = join(position, share, &mut host);
                ended.and_then(|()| Ok(host.finish()?)).map_err(|error| error.to_string())
            })
        };
        let hosts: Vec<_> = (0..).zip(listeners).map(start).collect();
        hosts.into_iter().map(|host| host.join().unwrap()).collect()
    })
}

/// Makes host 1 keep its host of the ring until the others have ended.
struct Others(Sender<()>, Mutex<Receiver<()>>);

impl Others {
    fn new() -> Self {
        let (ended, have_ended) = channel();
        Self(ended, Mutex::new(have_ended))
    }

    fn have_ended(&self, position: RingPosition) {
        if position.me().0 != 1 {
            return self.0.send(()).unwrap();
        }
        let have_ended = self.1.lock().unwrap();
        (0..2).for_each(|_| have_ended.recv_timeout(Duration::from_secs(20)).expect("the others wait for this host"));
    }
}

const PARTS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Returns how three hosts end if host 1 fails with this error.
fn host_1_fails(own: &str) -> [Result<(), String>; 3] {
    let named = "host 1 has failed: it gave up";
    [named, own, named].map(|error| Err(error.to_owned()))
}

/// One host's result cannot be output: it reports the reason, and the others name it.
#[test]
fn an_error_of_one_host_ends_all() {
    let ended = three_hosts(|position, share, host| {
        let emit = |_, _| if position.me().0 == 1 { Err(JoinError::Outside("no space".into())) } else { Ok(()) };
        share.revolve(host, &emit).map(drop)
    });
    assert_eq!(ended, host_1_fails("no space"));
}

/// One host cannot read its last part. It keeps its host of the ring until the others have been
/// notified.
#[test]
fn a_part_that_cannot_be_read_ends_all() {
    let others = Others::new();
    let ended = three_hosts(|position, share, host| {
        let part = |part| match (position.me().0, part) {
            (1, 2) => Err(JoinError::Outside("cannot be read".into())),
            _ => Ok(rows(100)),
        };
        let ended = share.revolve_with(host, Supply::new().with_parts(PARTS, part), &|_, _| Ok(())).map(drop);
        others.have_ended(position);
        ended
    });
    assert_eq!(ended, host_1_fails("cannot be read"));
}

/// A caller that catches a panic of the source of parts keeps its host of the ring. The others do
/// not wait for it.
#[test]
fn a_panic_between_revolutions_ends_all() {
    let others = Others::new();
    let ended = three_hosts(|position, share, host| {
        let part = |part| {
            assert!(position.me().0 != 1, "no part {part}");
            Ok(rows(100))
        };
        let join = AssertUnwindSafe(|| {
            share.revolve_with(host, Supply::new().with_parts(PARTS, part), &|_, _| Ok(())).map(drop)
        });
        let ended = catch_unwind(join).unwrap_or(Err(CycloError::Panicked));
        others.have_ended(position);
        ended
    });
    assert_eq!(ended, host_1_fails("a thread of the join has panicked"));
}

/// A host that makes fewer revolutions than the others would lose pairs; it reports that.
#[test]
fn hosts_that_differ_in_their_parts_fail() {
    let ended = three_hosts(|position, share, host| {
        let parts = if position.me().0 == 1 { NonZeroUsize::new(2).unwrap() } else { PARTS };
        share.revolve_with(host, Supply::new().with_parts(parts, |_| Ok(rows(100))), &|_, _| Ok(())).map(drop)
    });
    assert!(ended[1].as_ref().is_err_and(|error| error.contains("the same number")), "{ended:?}");
    assert!(ended.iter().all(Result::is_err), "{ended:?}");
}

/// Returns how three hosts end. Host 1 is fed by `feed`, and the others endlessly.
fn fed_hosts(
    feed: &RowSource<'_>,
    emit: impl Fn(RingPosition) -> Result<(), JoinError> + Sync,
) -> Vec<Result<(), String>> {
    let without_end = |give: &mut RowSink<'_>| {
        loop {
            give(rows(8000))?;
        }
    };
    three_hosts(|position, share, host| {
        let feed: &RowSource<'_> = if position.me().0 == 1 { feed } else { &without_end };
        share.revolve_with(host, Supply::new().with_probe(feed), &|_, _| emit(position)).map(drop)
    })
}

/// Rows that cannot be kept for further revolutions end the join, with and without key filters.
#[test]
fn rows_that_cannot_be_kept_end_the_join() {
    let condition =
        Condition::Hash { build: vec![0], probe: vec![0], nulls_equal: false, partitions: Partitions::at_least(2) };
    for key_filter in [None, Some(KeyFilterKind::Exact)] {
        let spec = spec(condition.clone(), 2).with_key_filter(key_filter);
        let share = Share::prepare(&spec, rows(10), Vec::new()).unwrap();
        let feed = |give: &mut RowSink<'_>| give(rows(1000));
        let supply = Supply::new()
            .with_parts(NonZeroUsize::new(2).unwrap(), |_| Ok(rows(10)))
            .with_probe(&feed)
            .with_store(StoreConfig::new(0, "/nowhere"));
        let error = share.revolve_with(&mut host(), supply, &|_, _| Ok(())).unwrap_err();
        assert!(matches!(&error, CycloError::Store { .. }), "{key_filter:?}: {error}");
    }
}

/// The probe rows cannot be read while the ring turns, or their reader panics.
#[test]
fn a_feed_that_fails_ends_all() {
    let ended = fed_hosts(
        &|give| {
            give(rows(8000))?;
            Err(JoinError::Outside("cannot be read".into()))
        },
        |_| Ok(()),
    );
    assert_eq!(ended, host_1_fails("cannot be read"));
    let ended = fed_hosts(&|_| panic!("nothing can be read"), |_| Ok(()));
    assert_eq!(ended, host_1_fails("a thread of the join has panicked"));
}

/// A caller that ignores the error of `RowSink` and goes on has lost rows all the same: those that
/// cannot be prepared, and those that a key filter's later revolutions cannot keep.
#[test]
fn an_error_of_give_that_is_ignored_ends_the_join() {
    let other = RecordBatch::try_from_iter([("other", Arc::new(StringArray::from(vec!["a"])) as ArrayRef)]).unwrap();
    let feed = |give: &mut RowSink<'_>| {
        let _ = give(vec![other.clone()]);
        let _ = give(rows(10));
        Ok(())
    };
    let joined = share(10, 1).revolve_with(&mut host(), Supply::new().with_probe(&feed), &|_, _| Ok(()));
    let error = joined.map(drop).unwrap_err().to_string();
    assert!(error.contains("a batch has columns"), "{error}");

    let condition =
        Condition::Hash { build: vec![0], probe: vec![0], nulls_equal: false, partitions: Partitions::at_least(2) };
    let spec = spec(condition, 1).with_key_filter(Some(KeyFilterKind::Exact));
    let feed = |give: &mut RowSink<'_>| {
        let _ = give(rows(10));
        Ok(())
    };
    let supply = Supply::new()
        .with_parts(NonZeroUsize::new(2).unwrap(), |_| Ok(rows(10)))
        .with_probe(&feed)
        .with_store(StoreConfig::new(0, "/nowhere"));
    let joined = Share::prepare(&spec, rows(10), Vec::new()).unwrap().revolve_with(&mut host(), supply, &|_, _| Ok(()));
    let error = joined.map(drop).unwrap_err();
    assert!(matches!(error, CycloError::Store { .. }), "{error}");
}

/// Feeders have more rows than the join takes, and end when it fails.
#[test]
fn a_feed_without_end_ends_with_its_join() {
    let others = fed_hosts(
        &|give| loop {
            give(rows(8000))?;
        },
        |position| if position.me().0 == 1 { Err(JoinError::Outside("no space".into())) } else { Ok(()) },
    );
    assert_eq!(others, host_1_fails("no space"));
}

/// Runs three hosts, of which only host 0 has probe rows. Host 1 is fed by `feed`. Each of the
/// 800,000 pairs of a host comes out in a batch of `emit`.
fn beside_a_feed(
    feed: &RowSource<'_>,
    emit: impl Fn(RingPosition, RecordBatch) -> Result<(), JoinError> + Sync,
    ended: impl Fn(RingPosition) + Sync,
) -> Vec<Result<(), String>> {
    three_hosts(|position, _, host| {
        let probe = if position.me().0 == 0 { rows(8000) } else { Vec::new() };
        let share = Share::prepare(&spec(Condition::Any(None), 2), rows(100), probe).unwrap();
        let supply = if position.me().0 == 1 { Supply::new().with_probe(feed) } else { Supply::new() };
        let joined = share.revolve_with(host, supply, &|_, batch| emit(position, batch)).map(drop);
        ended(position);
        joined
    })
}

/// While host 1 waits for its own rows, it joins the fragments of host 0 and forwards them to
/// host 2.
#[test]
fn a_read_that_takes_long_holds_up_no_fragment() {
    let (passed, has_passed) = channel();
    let (has_passed, pairs) = (Mutex::new(has_passed), AtomicUsize::new(0));
    let feed = |give: &mut RowSink<'_>| {
        let passed = has_passed.lock().unwrap().recv_timeout(Duration::from_secs(20));
        passed.map_err(|_| JoinError::Outside("fragments wait for a read".into()))?;
        give(rows(1000))
    };
    // All but what may stay in an incomplete batch of each thread.
    let most = 100 * 8000 - 2 * annulus_join::BATCH_ROWS;
    let emit = |position: RingPosition, batch: RecordBatch| {
        let before = if position.me().0 == 2 { pairs.fetch_add(batch.num_rows(), Relaxed) } else { usize::MAX };
        if before < most && before + batch.num_rows() >= most {
            passed.send(()).unwrap();
        }
        Ok(())
    };
    assert_eq!(beside_a_feed(&feed, emit, |_| {}), [Ok(()), Ok(()), Ok(())]);
    assert_eq!(pairs.into_inner(), 100 * 9000);
}

/// A host that waits for its own rows learns of a failure, and the hosts after it do through it.
#[test]
fn a_read_that_takes_long_holds_up_no_failure() {
    let others = Others::new();
    let feed = |_: &mut RowSink<'_>| {
        others.have_ended(RingPosition::new(1, 3).unwrap());
        Ok(())
    };
    let emit = |position: RingPosition, _| {
        if position.me().0 == 2 { Err(JoinError::Outside("no space".into())) } else { Ok(()) }
    };
    let ended = |position: RingPosition| {
        if position.me().0 != 1 {
            others.have_ended(position);
        }
    };
    let named = "host 2 has failed: it gave up";
    assert_eq!(beside_a_feed(&feed, emit, ended), [named, named, "no space"].map(|error| Err(error.to_owned())));
}

/// The error of a read ends the join at once, although rows that were read before it still wait
/// to be sent.
#[test]
fn a_read_that_fails_does_not_wait_for_earlier_rows() {
    let feed = |give: &mut RowSink<'_>| {
        give(rows(100_000))?;
        Err(JoinError::Outside("'a.csv' cannot be read".into()))
    };
    // Closed when host 1 has ended. Until then host 2 joins nothing.
    let (open, has_ended) = channel::<()>();
    let (open, has_ended) = (Mutex::new(Some(open)), Mutex::new(has_ended));
    let emit = |position: RingPosition, _| match position.me().0 {
        2 if has_ended.lock().unwrap().recv_timeout(Duration::from_secs(20)) == Err(RecvTimeoutError::Timeout) => {
            Err(JoinError::Outside("the error waits for fragments".into()))
        }
        _ => Ok(()),
    };
    let ended = |position: RingPosition| {
        if position.me().0 == 1 {
            open.lock().unwrap().take();
        }
    };
    let named = "host 1 has failed: it gave up";
    let expected = [named, "'a.csv' cannot be read", named].map(|error| Err(error.to_owned()));
    assert_eq!(beside_a_feed(&feed, emit, ended), expected);
}

/// A read that ends because the join has failed is not taken for the cause.
#[test]
fn a_read_that_is_cancelled_by_a_failure_does_not_hide_it() {
    for _ in 0..20 {
        let cancel = CancelToken::new();
        let spec = spec(Condition::Any(None), 1).with_cancel(cancel.clone());
        let share = Share::prepare(&spec, rows(100), rows(8000)).unwrap();
        let feed = |_: &mut RowSink<'_>| {
            while !cancel.is_cancelled() {
                thread::yield_now();
            }
            Err(JoinError::Cancelled)
        };
        let emit = |_, _| Err(JoinError::Outside("no space".into()));
        let joined = share.revolve_with(&mut host(), Supply::new().with_probe(&feed), &emit);
        assert_eq!(joined.map(drop).unwrap_err().to_string(), "no space");
    }
}

/// A fragment of a cross join that would take long is abandoned: if the join is cancelled, and if
/// another host has failed, which the error names.
#[test]
fn a_stop_is_noticed_within_a_fragment() {
    let late = AtomicUsize::new(0);
    let ended = three_hosts(|position, _, host| {
        let cancel = CancelToken::new();
        let spec = spec(Condition::Any(None), 2).with_cancel(cancel.clone());
        let share = Share::prepare(&spec, rows(20_000), rows(100_000)).unwrap();
        let emit = |_, _| {
            late.fetch_add(usize::from(cancel.is_cancelled()), Relaxed);
            if position.me().0 == 1 {
                cancel.cancel();
            }
            Ok(())
        };
        share.revolve(host, &emit).map(drop)
    });
    let named = "host 1 has failed: it gave up";
    assert_eq!(ended, [named, "the join was cancelled", named].map(|error| Err(error.to_owned())));
    // Each of two threads of three hosts may have been about to emit a batch.
    assert!(late.into_inner() <= 6);
}

/// The stop handle of the ring's host also ends the join.
#[test]
fn a_host_that_is_stopped_has_not_failed() {
    let cancel = CancelToken::new();
    let spec = spec(Condition::Any(None), 2).with_cancel(cancel.clone());
    let share = Share::prepare(&spec, rows(20_000), rows(20_000)).unwrap();
    let mut host = host();
    let stopper = host.stop_handle();
    let emit = |_, _| {
        cancel.cancel();
        stopper.stop();
        Ok(())
    };
    let ended = share.revolve(&mut host, &emit).map(drop);
    assert!(matches!(ended, Err(CycloError::Join(JoinError::Cancelled))), "{ended:?}");
}
