//! One join around a ring whose hosts are threads.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use annulus_baselines::clock::Clock;
use annulus_cyclo::{JoinSpec, JoinStats, Share};
use annulus_join::{JoinError, JoinType, OutputSpec, Side, Sides};
use annulus_roundabout::{Host, RingConfig};
use annulus_terminal::machine;
use anyhow::{Result, anyhow};
use arrow::{array::AsArray, array::RecordBatch, datatypes::Int64Type};
use parking_lot::Mutex;

use super::{
    args::{By, Link},
    links::Links,
    network::Network,
    pace::Pace,
    tables::{Answer, Tables, sum},
};
use crate::clock::Machine;

/// A ring and the tables that it joins.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) by: By,
    pub(crate) link: Link,
    pub(crate) hosts: u16,
    /// The number of threads of each host.
    pub(crate) threads: usize,
    pub(crate) config: RingConfig,
    /// The number of times that each host sends its fragments, for a revolution that lasts long enough.
    pub(crate) times: usize,
    /// The network in which hosts are, if it is not this machine's. Not for hosts one at a time.
    pub(crate) network: Option<&'a Network>,
    /// The seconds that the joins of a host last at least, each fragment once, by pauses. Only for
    /// hosts of one thread.
    pub(crate) join_s: Option<f64>,
}

/// A join's result and its times.
pub(super) struct JoinOutcome {
    pub(super) answer: Answer,
    pub(super) hosts: Vec<HostStats>,
    /// The time on cores during the revolution, divided by that of all cores.
    pub(super) cpu_load: Option<f64>,
    /// The seconds on cores of setup and revolution.
    pub(super) cpu: Option<f64>,
    /// The part of the cores' time during the revolution that other processes used; 0 if that is
    /// not measured.
    pub(super) others_share: f64,
}

/// One host's part of a join.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostStats {
    pub(super) stats: JoinStats,
    pub(super) join: Duration,
    /// The part of `join` in which this host's thread was on a core.
    pub(super) join_cpu: Duration,
    /// The peak memory during its preparation, if known.
    pub(super) peak: Option<u64>,
    /// The time on a core during its preparation, if known and if one thread prepared.
    pub(super) setup_cpu: Option<Duration>,
}

/// The state that hosts share to begin together.
#[derive(Clone, Copy)]
struct Start<'a> {
    /// Held by the host that prepares.
    one: &'a Mutex<()>,
    all: &'a Barrier,
    /// The clocks of this process and of the machine, from the beginning.
    busy: &'a Mutex<Option<machine::CpuTime>>,
    machine: &'a Mutex<Option<Result<Machine>>>,
}

/// The sums of the answers of several threads.
#[derive(Default)]
pub(super) struct Totals(Mutex<Answer>);

impl Ring<'_> {
    /// Joins on all hosts at once. They prepare one after another and run the revolution together.
    pub(super) fn join(&self) -> Result<JoinOutcome> {
        let links = Links::new(self.hosts, self.link, self.config, self.network)?;
        let whole = machine::CpuTime::start();
        let totals = Totals::default();
        let (one, all) = (Mutex::new(()), Barrier::new(usize::from(self.hosts)));
        let (busy, machine) = (Mutex::new(None), Mutex::new(None));
        let hosts = thread::scope(|scope| {
            let host = |me| {
                let start = Start { one: &one, all: &all, busy: &busy, machine: &machine };
                let (links, totals) = (&links, &totals);
                scope.spawn(move || self.host(me, links, totals, start))
            };
            let hosts: Vec<_> = (0..self.hosts).map(host).collect();
            hosts
                .into_iter()
                .map(|host| host.join().map_err(|_| anyhow!("a host has panicked"))?)
                .collect::<Result<Vec<_>>>()
        })?;
        let others_share = match machine.into_inner() {
            Some(machine) => machine?.others_share()?,
            None => 0.0,
        };
        let busy = busy.into_inner();
        let cpu_load = busy.and_then(|busy: machine::CpuTime| busy.load());
        Ok(JoinOutcome { answer: totals.answer(), hosts, cpu_load, cpu: whole.seconds(), others_share })
    }

    fn host(&self, me: u16, links: &Links<'_>, totals: &Totals, start: Start<'_>) -> Result<HostStats> {
        let Start { one, all, busy, machine } = start;
        // Every host must reach the barriers, even after an error.
        let ready = links.start(me).and_then(|host| {
            let _alone = one.lock();
            Ok((host, self.prepare(me)?))
        });
        if self.network.is_some() && all.wait().is_leader() {
            *machine.lock() = Some(Machine::start());
        }
        if all.wait().is_leader() {
            *busy.lock() = Some(machine::CpuTime::start());
        }
        let (host, share) = ready?;
        revolve(host, share, totals, self.pace())
    }

    /// Prepares host `me`'s part of both tables.
    pub(super) fn prepare(&self, me: u16) -> Result<Share> {
        let [left, right] = [&self.tables.left, &self.tables.right].map(|side| Tables::share(side, me, self.hosts));
        Ok(Share::prepare(&self.spec(), left, right)?.repeated(self.times))
    }

    /// Returns the pace of a host's joins, if they have one. All hosts find about as many pairs.
    pub(super) fn pace(&self) -> Option<Pace> {
        let pairs = self.tables.answer.rows as f64 / f64::from(self.hosts);
        self.join_s.map(|join_s| Pace { pair_s: join_s / pairs.max(1.0) })
    }

    fn spec(&self) -> JoinSpec {
        let schema = &self.tables.schema;
        JoinSpec::new(
            OutputSpec::new(JoinType::Inner, Side::Left, Sides { left: schema.clone(), right: schema.clone() })
                .with_columns(Sides { left: vec![1], right: vec![1] }),
            self.tables.condition(self.by, self.hosts),
            self.config.fragment_bytes as usize,
        )
        .with_threads(self.threads)
    }
}

/// Runs a host's revolution, to the end of its ring, each pair of rows at its pace.
pub(super) fn revolve(mut host: Host, share: Share, totals: &Totals, pace: Option<Pace>) -> Result<HostStats> {
    let (start, on_core) = (Instant::now(), Clock::Processor.thread());
    let paced = pace.map(|pace| Mutex::new(pace.start()));
    let stats = share.revolve(&mut host, &|_, batch| {
        totals.add(&batch)?;
        if let Some(paced) = &paced {
            paced.lock().keep(batch.num_rows());
        }
        Ok(())
    })?;
    let (join, join_cpu) = (start.elapsed(), on_core.elapsed());
    host.finish()?;
    Ok(HostStats { stats, join, join_cpu, ..HostStats::default() })
}

impl Totals {
    fn add(&self, batch: &RecordBatch) -> Result<(), JoinError> {
        let column = |index: usize| sum(batch.column(index).as_primitive::<Int64Type>());
        let sum = column(0).wrapping_add(column(1));
        let mut answer = self.0.lock();
        answer.rows += batch.num_rows() as u64;
        answer.sum = answer.sum.wrapping_add(sum);
        Ok(())
    }

    pub(super) fn answer(&self) -> Answer {
        *self.0.lock()
    }
}
