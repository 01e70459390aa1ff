//! Collaborative morsel processing (paper, section 3.6). Threads read the same batches, and each
//! keeps the tuples of its own range of partitions.

use std::{
    ops::Range,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
};

use annulus_pages::{
    PagesError,
    partition::PageSink,
    target::{PartitionOf, with_target},
    tuples::TupleBatch,
};
use annulus_sync::CancelToken;
use parking_lot::Mutex;

use super::{
    Job, Partitioner,
    buffers::Buffers,
    check_job,
    crew::{blocks, on_threads, share},
};
use crate::{
    manager::{Writer, local::LocalPages, lock::Lock, places::Places},
    source::TupleReader,
};

/// Gives each thread a range of the partitions, which it writes without synchronisation. There are
/// at most as many threads as partitions. All of them process all batches, and read them in turn.
#[derive(Clone, Copy, Debug)]
pub struct CmpExclusivePartitionRanges;

/// Shares the batches among units of up to four threads, over the lock-based page manager. One
/// thread of a unit reads. Each of the others has a range of the partitions.
#[derive(Clone, Copy, Debug)]
pub struct CmpProcessingUnits;

/// The number of threads of a processing unit.
const UNIT_THREADS: usize = 4;
/// The number of batches that may wait for a thread.
const BATCHES_AHEAD: usize = 1;

type Batch = Arc<TupleBatch>;

impl Partitioner for CmpExclusivePartitionRanges {
    fn name(&self) -> &'static str {
        "CmpExclusivePartitionRanges"
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        check_job(job)?;
        let (partitions, outlet) = (job.partitions.consumers(), job.outlet(sink));
        let local = on_peers(all_to_all(partitions, job.threads.min(partitions)), |peer, cancel| {
            let mut pages = LocalPages::new(job.memory, &outlet, peer.range.clone())?;
            peer.process(job, &mut pages, cancel)?;
            Ok(pages)
        })?;
        local.into_iter().for_each(LocalPages::finish);
        Ok(())
    }
}

impl Partitioner for CmpProcessingUnits {
    fn name(&self) -> &'static str {
        "CmpProcessingUnits"
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        check_job(job)?;
        let places = Places::new(job.memory, job.outlet(sink), blocks(job, |_| 1)?);
        let units = job.threads.div_ceil(UNIT_THREADS);
        let peers = (0..units).flat_map(|number| {
            unit(job.partitions.consumers(), share(job.threads, number, units).len(), (number, units))
        });
        on_peers(peers.collect(), |peer, cancel| peer.process(job, &mut Lock(&places), cancel))?;
        places.finish();
        Ok(())
    }
}

/// A thread that reads batches, receives batches, or both. It keeps the tuples of its range.
struct Peer {
    range: Range<usize>,
    /// The number of this peer among the readers, and the number of readers. `None` if it does not
    /// read.
    reads: Option<(usize, usize)>,
    /// The peers that receive the batches that it reads.
    to: Vec<SyncSender<Batch>>,
    from: Vec<Receiver<Batch>>,
}

/// Creates peers that all read for each other. In every round a peer sends one batch to each of the
/// others, and receives one from each. A waiting peer is not behind the others, so one of them can
/// always continue.
fn all_to_all(partitions: usize, threads: usize) -> Vec<Peer> {
    let peer = |thread| Peer {
        range: share(partitions, thread, threads),
        reads: Some((thread, threads)),
        to: Vec::new(),
        from: Vec::new(),
    };
    let mut peers: Vec<_> = (0..threads).map(peer).collect();
    for sender in 0..threads {
        for receiver in (0..threads).filter(|&receiver| receiver != sender) {
            let (to, from) = sync_channel(BATCHES_AHEAD);
            peers[sender].to.push(to);
            peers[receiver].from.push(from);
        }
    }
    peers
}

/// Creates the peers of a unit: one reads, and each of the others has a range. A single peer does
/// both.
fn unit(partitions: usize, threads: usize, reads: (usize, usize)) -> Vec<Peer> {
    let members = (threads - 1).min(partitions);
    let range = if members == 0 { 0..partitions } else { 0..0 };
    let mut peers = vec![Peer { range, reads: Some(reads), to: Vec::new(), from: Vec::new() }];
    for member in 0..members {
        let (to, from) = sync_channel(BATCHES_AHEAD);
        peers[0].to.push(to);
        peers.push(Peer { range: share(partitions, member, members), reads: None, to: Vec::new(), from: vec![from] });
    }
    peers
}

fn on_peers<T: Send>(
    peers: Vec<Peer>,
    work: impl Fn(Peer, &CancelToken) -> Result<T, PagesError> + Sync,
) -> Result<Vec<T>, PagesError> {
    let peers: Vec<_> = peers.into_iter().map(|peer| Mutex::new(Some(peer))).collect();
    on_threads(peers.len(), |thread, cancel| {
        let peer = peers[thread].lock().take();
        work(peer.expect("each is taken once"), cancel)
    })
}

impl Peer {
    /// Reads and receives all batches, and writes the tuples of its range. A peer that fails closes
    /// its channels, which ends the others.
    fn process(mut self, job: &Job<'_>, writer: &mut impl Writer, cancel: &CancelToken) -> Result<(), PagesError> {
        let mut buffers = Buffers::new(job, self.range.clone());
        let (mut batches, mut rows) = (Vec::new(), Vec::new());
        let mut keep = |batch: &TupleBatch| {
            let tuples = batch.tuples(job.shape.payload())?;
            with_target!(job.partitions, |target| {
                let target = Within { target, first: self.range.start };
                select(tuples.keys(), target, self.range.len(), &mut rows);
                buffers.append(&tuples, rows.iter().map(|&row| row as usize), target, writer)
            })
        };
        let mut reader = self.reads.map(|(number, readers)| job.source.reader(number, readers));
        while reader.is_some() || !self.from.is_empty() {
            if let Some(open) = &mut reader {
                match read(&mut **open, &mut batches) {
                    Some(batch)
                        if !cancel.is_cancelled() && self.to.iter().all(|to| to.send(Arc::clone(&batch)).is_ok()) =>
                    {
                        keep(&batch)?;
                    }
                    _ => {
                        reader = None;
                        self.to.clear();
                    }
                }
            }
            let mut received = Ok(());
            self.from.retain(|from| {
                from.recv().is_ok_and(|batch| {
                    received = received.clone().and_then(|()| keep(&batch));
                    true
                })
            });
            received?;
        }
        buffers.flush(writer)
    }
}

/// Reads the next batch into memory that no peer uses any more.
fn read(reader: &mut dyn TupleReader, batches: &mut Vec<Batch>) -> Option<Batch> {
    let free = batches.iter_mut().position(|batch| Arc::get_mut(batch).is_some());
    let mut batch = free.map_or_else(Batch::default, |free| batches.swap_remove(free));
    let read = Arc::get_mut(&mut batch).is_some_and(|batch| reader.fill(batch));
    batches.push(Arc::clone(&batch));
    read.then_some(batch)
}

/// A target that counts partitions from the first of a range.
#[derive(Clone, Copy)]
struct Within<T> {
    target: T,
    first: usize,
}

impl<T: PartitionOf> PartitionOf for Within<T> {
    #[inline(always)]
    fn partition(self, key: u32) -> usize {
        self.target.partition(key).wrapping_sub(self.first)
    }
}

/// Sets `rows` to the tuples whose partition is one of the first `partitions`.
fn select(keys: &[u32], target: impl PartitionOf, partitions: usize, rows: &mut Vec<u32>) {
    rows.resize(keys.len(), 0);
    let mut kept = 0;
    for (row, &key) in keys.iter().enumerate() {
        // Written in any case, and kept if it is in the range: there is no branch to mispredict.
        rows[kept] = row as u32;
        kept += usize::from(target.partition(key) < partitions);
    }
    rows.truncate(kept);
}
