//! One join around a ring whose hosts are threads.

use std::{
    os::unix::net::UnixListener,
    path::Path,
    sync::{Barrier, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use annulus_cyclo::{Condition, JoinSpec, Share, Turn};
use annulus_join::{
    hash::Partitions,
    output::OutputSpec,
    types::{JoinType, Side},
};
use annulus_roundabout::{
    config::Config,
    error::RoundaboutError,
    host::Host,
    link::socket::{Address, Clear},
    ring::Place,
};
use anyhow::{Context, Result, anyhow};
use arrow::{array::AsArray, array::RecordBatch, datatypes::Int64Type};

use super::tables::{Answer, Tables, schema, sum};

const SESSION: u64 = 1;
/// A slow machine may let a host wait for long; nothing fails here.
const PATIENCE: Duration = Duration::from_secs(600);

pub(super) struct Ring<'a> {
    pub(super) hosts: u16,
    pub(super) threads: usize,
    pub(super) element: u32,
    pub(super) tables: &'a Tables,
}

/// What a join gave, and how long it took.
pub(super) struct Joined {
    pub(super) answer: Answer,
    pub(super) turns: Vec<Turn>,
    /// From when all hosts were ready until all were done.
    pub(super) join: Duration,
}

impl Ring<'_> {
    pub(super) fn join(&self) -> Result<Joined> {
        let folder = tempfile::tempdir().context("cannot make a folder for sockets")?;
        let path = |host: u16| folder.path().join(format!("host-{host}"));
        let listeners = (0..self.hosts)
            .map(|me| UnixListener::bind(path(me)))
            .collect::<Result<Vec<_>, _>>()
            .context("no socket")?;
        let answer = Mutex::new(Answer::default());
        // One host prepares at a time; all turn together.
        let (one, all) = (Mutex::new(()), Barrier::new(usize::from(self.hosts)));
        let results = thread::scope(|scope| {
            let hosts: Vec<_> = (0..)
                .zip(listeners)
                .map(|(me, listener)| {
                    let (folder, answer, one, all) = (folder.path(), &answer, &one, &all);
                    scope.spawn(move || self.host(me, listener, folder, answer, one, all))
                })
                .collect();
            hosts
                .into_iter()
                .map(|host| host.join().map_err(|_| anyhow!("a host has panicked"))?)
                .collect::<Result<Vec<_>>>()
        })?;
        let join = results.iter().map(|(_, join)| *join).max().unwrap_or_default();
        let answer = answer.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Joined { answer, turns: results.into_iter().map(|(turn, _)| turn).collect(), join })
    }

    fn host(
        &self,
        me: u16,
        listener: UnixListener,
        folder: &Path,
        answer: &Mutex<Answer>,
        one: &Mutex<()>,
        all: &Barrier,
    ) -> Result<(Turn, Duration)> {
        // Every host comes to the barrier, whatever happens to it.
        let ready = self.ready(me, listener, folder, one);
        all.wait();
        let (mut host, share) = ready?;
        let start = Instant::now();
        let turn = share.turn(&mut host, &|_, batch| {
            let column = |index: usize| sum(batch.column(index).as_primitive::<Int64Type>());
            let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
            answer.rows += batch.num_rows() as u64;
            answer.sum = answer.sum.wrapping_add(column(0)).wrapping_add(column(1));
            Ok(())
        })?;
        let join = start.elapsed();
        host.finish()?;
        Ok((turn, join))
    }

    fn ready(&self, me: u16, listener: UnixListener, folder: &Path, one: &Mutex<()>) -> Result<(Host, Share)> {
        let place = Place::new(me, self.hosts).context("a place in the ring")?;
        let host = self.start(place, listener, folder)?;
        let spec = JoinSpec {
            output: OutputSpec {
                join: JoinType::Inner,
                build: Side::Left,
                left: schema(),
                right: schema(),
                left_columns: vec![1],
                right_columns: vec![1],
                filter: None,
            },
            condition: Condition::Hash {
                build: vec![0],
                probe: vec![0],
                nulls_equal: false,
                partitions: Partitions::for_rows(self.rows() / usize::from(self.hosts)),
            },
            fragment_bytes: self.element as usize,
            threads: self.threads,
        };
        let (left, right) = (self.share(&self.tables.left, me), self.share(&self.tables.right, me));
        let _alone = one.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((host, Share::prepare(&spec, left, right)?))
    }

    fn start(&self, place: Place, listener: UnixListener, folder: &Path) -> Result<Host, RoundaboutError> {
        let config =
            Config { fragment_bytes: self.element, timeout: PATIENCE, connect_timeout: PATIENCE, ..Config::default() };
        let address = Address::Unix { listener, successor: folder.join(format!("host-{}", place.successor())) };
        Host::join_ring(place, SESSION, &config, address, &Clear)
    }

    fn rows(&self) -> usize {
        self.tables.left.iter().map(RecordBatch::num_rows).sum()
    }

    /// Every so-many-eth row range of the table: this host's.
    fn share(&self, batches: &[RecordBatch], me: u16) -> Vec<RecordBatch> {
        let hosts = usize::from(self.hosts);
        let part = |batch: &RecordBatch| {
            let at = |host: usize| batch.num_rows() * host / hosts;
            let (start, end) = (at(usize::from(me)), at(usize::from(me) + 1));
            batch.slice(start, end - start)
        };
        batches.iter().map(part).collect()
    }
}
