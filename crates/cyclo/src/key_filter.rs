//! The filter of a build side's keys, made by all hosts before the probe side rotates. If the build
//! side has several parts, each part has its filter.
//!
//! ```text
//! Bloom   revolution 1: each host sends its share of the blocks around, and each host adds its bits to
//!                       all of them: a share is complete where it ends, before its origin
//!         revolution 2: each host sends the share that ended at it, to all
//! exact   one revolution: each host sends its hashes to all
//! ```
//! A Bloom filter of m bytes thus crosses each link about twice (a ring all-reduce, after Patarasuk
//! and Yuan, 2009).

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use annulus_join::{CancelToken, JoinError, KeyFilter, KeyFilterBuilder, KeyFilterKind, Keys};
use annulus_roundabout::{Fragment, Host, RingPosition};
use arrow::array::RecordBatch;
use parking_lot::{Mutex, MutexGuard};

use crate::CycloError;

/// Drops rows of the probe side that have no partner on any host.
pub(crate) struct ProbeFilter<'k> {
    keys: &'k Keys,
    filter: KeyFilter,
    dropped: AtomicU64,
}

impl<'k> ProbeFilter<'k> {
    /// Makes the filter together with the other hosts. `build` has this host's rows, and `keys` are
    /// those of the build and the probe side. Also returns the bytes of the parts that this host
    /// has seen, its own included.
    ///
    /// # Errors
    /// The errors of the ring, and [`JoinError::Cancelled`].
    pub(crate) fn make(
        kind: KeyFilterKind,
        (build_keys, probe_keys): (&Keys, &'k Keys),
        build: &RecordBatch,
        host: &mut Host,
        cancel: &CancelToken,
    ) -> Result<(Self, u64), CycloError> {
        let mut own = KeyFilterBuilder::new(kind);
        own.insert(build_keys, build, cancel)?;
        let position = host.position();
        let units = own.units();
        let merged = Mutex::new(own);
        let mut bytes = 0;
        if position.hosts() > 1 {
            bytes += match kind {
                KeyFilterKind::Exact => send(host, &merged, 0..units)?,
                KeyFilterKind::Bloom(_) => {
                    send(host, &merged, share(units, position, position.me().0))?
                        + send(host, &merged, share(units, position, position.successor().0))?
                }
            };
        }
        let filter = merged.into_inner().complete();
        Ok((Self { keys: probe_keys, filter, dropped: AtomicU64::new(0) }, bytes))
    }

    /// Returns the rows that may have a partner, without batches that have none.
    pub(crate) fn keep(&self, batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>, JoinError> {
        let mut all = Vec::with_capacity(batches.len());
        for batch in batches {
            let kept = self.filter.keep(self.keys, &batch)?;
            self.dropped.fetch_add((batch.num_rows() - kept.num_rows()) as u64, Relaxed);
            all.push(kept);
        }
        all.retain(|batch| batch.num_rows() > 0);
        Ok(all)
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Returns the memory of the filter in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.filter.bytes()
    }
}

/// Returns the share of a host among `units` units.
fn share(units: usize, position: RingPosition, host: u16) -> Range<usize> {
    let border = |host: usize| (units as u128 * host as u128 / u128::from(position.hosts())) as usize;
    border(host.into())..border(usize::from(host) + 1)
}

/// Sends the units `units` of this host's filter to all hosts, and merges what the others send.
/// Returns the bytes of all.
fn send(host: &mut Host, merged: &Mutex<KeyFilterBuilder>, units: Range<usize>) -> Result<u64, CycloError> {
    let me = host.position().me();
    let mut next = units.start;
    let fill = |buffer: &mut [u8]| {
        let (written, bytes) = lock(merged).write(next, units.end, buffer);
        next += written;
        Ok((written > 0).then_some(bytes))
    };
    let merge = |Fragment { frame, bytes, .. }: Fragment<'_>| {
        if frame.origin == me { Ok(()) } else { Ok::<_, CycloError>(lock(merged).merge(bytes)?) }
    };
    Ok(host.revolve(fill, merge)?.bytes)
}

fn lock(merged: &Mutex<KeyFilterBuilder>) -> MutexGuard<'_, KeyFilterBuilder> {
    merged.lock()
}
