//! The settings that the paper's measurements suggest for a topology: *One Ring to Shuffle Them All* (Szymański
//! and Akidau, arXiv 2605.29099).

use crate::{Placement, Topology, short_bytes};

/// The largest batch with which more than one group paid on a single domain: "at small batch sizes
/// (≤ 128 KB)" (section 4.4).
const SMALL_BATCH_BYTES: u64 = 128 << 10;

/// A suggested number of groups in a ring, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Groups {
    /// K, the number of published groups that a ring holds: 1 or 2.
    pub groups: usize,
    /// Why, in a sentence without its capital and its full stop.
    pub reason: String,
}

impl Topology {
    /// Returns the number of producers, and of consumers, that can keep the usable CPUs busy: one
    /// of each for every CPU, hardware threads included, as in the paper's production system and
    /// its measurements (sections 4.3 and 5.3).
    ///
    /// A quota is rounded up, so that all of it can be used. That is a rule of thumb: the last
    /// thread is then throttled for a part of each period.
    pub fn suggested_threads(&self) -> usize {
        self.effective_cpus().ceil().max(1.0) as usize
    }

    /// Returns the K that the paper's findings suggest for threads in these places.
    ///
    /// `batch_bytes` is the size of a batch as producers hand it over, if it is known.
    ///
    /// From the paper (sections 4.4 and 5.2): K = 1 where threads span several last-level caches or
    /// sockets, which was the best there for all sizes of batches but one. On a single cache, K = 2
    /// with batches of at most 128 KiB, where it was 9 to 17 % faster, and K = 1 beyond 256 KiB,
    /// where that was 2 to 6 % faster. Production systems with a single cache use K = 2.
    ///
    /// Rules of thumb: K = 1 from 128 to 256 KiB, and where the cache is not known, because it is
    /// the paper's safe default. K = 1 also where the batches in flight, (K + 1) groups of one
    /// batch a producer, exceed the cache: the paper explains with it why K = 1 wins with large
    /// batches, and gives no formula. The paper measured its own ring, on machines of 72 to 192
    /// CPUs; how K matters on small ones is not measured.
    pub fn groups(&self, placement: &Placement, batch_bytes: Option<u64>) -> Groups {
        let one = |reason: String| Groups { groups: 1, reason };
        let domains = placement.domains();
        let is_known = |index: &usize| self.domains.get(*index).is_some_and(|domain| domain.cache.is_some());
        if domains.len() > 1 && domains.iter().all(is_known) {
            return one(format!("the threads span {} last-level caches", domains.len()));
        }
        let Some(cache_bytes) = self.shared_cache_bytes(placement) else {
            return one("the last-level cache is not known, and 1 is the safe default".to_owned());
        };
        let Some(batch_bytes) = batch_bytes else {
            let small = short_bytes(SMALL_BATCH_BYTES);
            return two(format!("the threads share a last-level cache; 1 suits batches of more than {small}"));
        };
        if batch_bytes > SMALL_BATCH_BYTES {
            return one(format!("batches have more than {}", short_bytes(SMALL_BATCH_BYTES)));
        }
        // Two groups published, and one being filled.
        let in_flight = (placement.producers().len() as u64).saturating_mul(3 * batch_bytes);
        if in_flight > cache_bytes {
            let [in_flight, cache] = [in_flight, cache_bytes].map(short_bytes);
            return one(format!("with 2, batches of {in_flight} would be in flight, and the cache has {cache}"));
        }
        two("the threads share a last-level cache, and batches are small".to_owned())
    }

    /// Returns the size of the last-level cache that threads in these places share. `None` if they
    /// span several, or if it is not known.
    pub fn shared_cache_bytes(&self, placement: &Placement) -> Option<u64> {
        let domains = Vec::from_iter(placement.domains());
        let &[index] = domains.as_slice() else { return None };
        self.domains.get(index)?.cache.as_ref()?.bytes
    }
}

fn two(reason: String) -> Groups {
    Groups { groups: 2, reason }
}
