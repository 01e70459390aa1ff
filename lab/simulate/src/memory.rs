//! Batches in memory: which domains have their lines, what a visit costs, and what production
//! costs.

use crate::{
    FittedParameters, Machine, Workload,
    parameters::{HEADER_LINES, JITTER, STREAM_OVERLAP, TRAFFIC},
    random::Random,
    workload::{LINE, PAGE},
};

/// The size from which an allocation is mapped by itself: `M_MMAP_THRESHOLD` of mallopt(3).
const MAPPED_BYTES: f64 = 131_072.0;

/// The part of a batch that a domain has fetched.
#[derive(Clone, Copy, Debug)]
struct CachedBatch {
    /// The part of the rows' lines that it has not fetched.
    data_left: f64,
    /// The part of the index's lines that it has not fetched.
    index_left: f64,
    /// Whether it has visited the batch.
    visited: bool,
}

const NOTHING: CachedBatch = CachedBatch { data_left: 1.0, index_left: 1.0, visited: false };

/// How the consumers of a domain read the batches in flight (the last line of the paper's table 1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readers {
    /// The batches in flight.
    pub(crate) in_flight: usize,
    /// Whether they read the same batch at about the same time, so that one finds what another one
    /// has fetched, even if the caches do not hold all batches in flight.
    pub(crate) together: bool,
}

#[derive(Clone, Debug)]
struct Batch {
    home: usize,
    left: usize,
    #[cfg(test)]
    serial: usize,
}

/// The caches of all domains, and the memory of all sockets.
#[derive(Debug)]
pub(crate) struct Memory {
    workload: Workload,
    domains: usize,
    between: Vec<f64>,
    sockets: Vec<usize>,
    cache_bytes: f64,
    cycle_ns: f64,
    fitted: FittedParameters,
    /// The time to move a byte to or from a socket's memory, in ns.
    byte_ns: f64,
    memory_free_at: Vec<f64>,
    map_free_at: f64,
    /// The part of the batches in flight that a domain's cache holds, once it is known.
    kept: Option<f64>,
    batches: Vec<Batch>,
    fetched: Vec<CachedBatch>,
    free: Vec<usize>,
    random: Random,
    #[cfg(test)]
    produced: usize,
}

impl Memory {
    pub(crate) fn new(machine: &Machine, fitted: &FittedParameters, workload: Workload, seed: u64) -> Self {
        let domains = machine.domains;
        Self {
            workload,
            domains,
            between: (0..domains * domains).map(|pair| machine.between_ns(pair / domains, pair % domains)).collect(),
            sockets: (0..domains).map(|domain| machine.socket(domain)).collect(),
            cache_bytes: machine.cache_bytes,
            cycle_ns: 1.0 / machine.clock_ghz.unwrap_or(fitted.smt_cycles),
            fitted: *fitted,
            byte_ns: machine.sockets as f64 / machine.memory_gb_s,
            memory_free_at: vec![0.0; machine.sockets],
            map_free_at: 0.0,
            kept: None,
            batches: Vec::new(),
            fetched: Vec::new(),
            free: Vec::new(),
            random: Random::new(seed),
            #[cfg(test)]
            produced: 0,
        }
    }

    pub(crate) fn workload(&self) -> Workload {
        self.workload
    }

    /// Returns the time of `cycles`, in ns.
    pub(crate) fn cycles(&self, cycles: f64) -> f64 {
        cycles * self.cycle_ns
    }

    /// Produces a batch in `domain` at the moment `now`. Returns its number, and the time that this
    /// takes. `fresh` is whether its memory was never used before.
    pub(crate) fn produce(&mut self, domain: usize, readers: usize, now: f64, fresh: bool) -> (usize, f64) {
        let workload = self.workload;
        let bytes = workload.batch_bytes();
        let spread = 1.0 + JITTER * (2.0 * self.random.unit() - 1.0);
        let work = self.cycles(self.fitted.row_cycles * workload.rows as f64) * spread;
        let memory = &mut self.memory_free_at[self.sockets[domain]];
        *memory = memory.max(now) + bytes * TRAFFIC * self.byte_ns;
        let mut end = memory.max(now + work);
        if fresh || (workload.sizes == crate::RowSizes::Normal && bytes >= MAPPED_BYTES) {
            let pages = workload.indexed_bytes() / PAGE;
            self.map_free_at = self.map_free_at.max(now) + pages * self.fitted.map_ns;
            end = end.max(self.map_free_at);
        }
        let number = self.allocate(domain, readers);
        (number, end - now)
    }

    fn allocate(&mut self, home: usize, left: usize) -> usize {
        let batch = Batch {
            home,
            left,
            #[cfg(test)]
            serial: {
                self.produced += 1;
                self.produced - 1
            },
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.batches.push(batch.clone());
            self.fetched.extend((0..self.domains).map(|_| NOTHING));
            self.batches.len() - 1
        });
        self.batches[number] = batch;
        let fetched = &mut self.fetched[number * self.domains..][..self.domains];
        fetched.fill(NOTHING);
        number
    }

    /// Returns how many batches were produced before this one.
    #[cfg(test)]
    pub(crate) fn serial(&self, number: usize) -> usize {
        self.batches[number].serial
    }

    /// Returns the time of one consumer in `domain` to read its `rows` rows of a batch. The last
    /// reader frees the batch.
    pub(crate) fn visit(&mut self, number: usize, domain: usize, rows: usize, readers: Readers) -> f64 {
        let batch = &mut self.batches[number];
        let home = batch.home;
        batch.left -= 1;
        if batch.left == 0 {
            self.free.push(number);
        }
        let fetched = &mut self.fetched[number * self.domains + domain];
        let near = self.between[domain * (self.domains + 1)];
        let memory = self.fitted.memory_ns;
        let kept = self.kept.unwrap_or_else(|| kept(&self.workload, self.domains, self.cache_bytes, readers.in_flight));
        self.kept = Some(kept);
        let from_home = match home == domain {
            true => near,
            false => self.between[home * self.domains + domain] * self.fitted.load,
        };
        // `left` is the part of the lines that the domain has not fetched.
        let cost = |left: f64| {
            if readers.together {
                left * (kept * from_home + (1.0 - kept) * memory) + (1.0 - left) * near
            } else {
                kept * (left * from_home + (1.0 - left) * near) + (1.0 - kept) * memory
            }
        };
        let overlap = (self.fitted.overlap_bytes / self.workload.row_bytes as f64).max(1.0);
        let row = self.workload.lines_of_row() * cost(fetched.data_left) + cost(fetched.index_left);
        let header = if fetched.visited { near } else { from_home };
        let wait = rows as f64 * row / overlap + HEADER_LINES * header + cost(1.0);

        let (data, index) = untouched(&self.workload, rows);
        fetched.data_left *= data;
        fetched.index_left *= index;
        fetched.visited = true;
        wait + self.read(rows)
    }

    /// Returns the time to compute with `rows` rows.
    pub(crate) fn read(&self, rows: usize) -> f64 {
        self.cycles(rows as f64 * self.workload.row_bytes as f64 * self.fitted.byte_cycles)
    }

    /// Returns the time to read `rows` contiguous rows that cores of all domains have written.
    pub(crate) fn read_contiguous(&self, domain: usize, rows: usize) -> f64 {
        self.write_contiguous(domain, rows) + self.read(rows)
    }

    /// Returns the time to write `rows` contiguous rows into lines that other cores have read.
    pub(crate) fn write_contiguous(&self, domain: usize, rows: usize) -> f64 {
        rows as f64 * self.workload.row_bytes as f64 / LINE * self.mean_ns(domain) / STREAM_OVERLAP
    }

    /// Returns the time to look at the cursors of all consumers.
    pub(crate) fn survey(&self, domain: usize, consumers: usize) -> f64 {
        consumers as f64 * self.mean_ns(domain) / STREAM_OVERLAP
    }

    /// Takes a batch back that no consumer reads.
    pub(crate) fn free(&mut self, number: usize) {
        self.free.push(number);
    }

    /// Returns the cost of a line that any domain may have.
    fn mean_ns(&self, domain: usize) -> f64 {
        self.between[domain * self.domains..][..self.domains].iter().sum::<f64>() / self.domains as f64
    }

    /// Returns one thread's time to give the memory of `batches` batches back.
    pub(crate) fn release(&self, batches: usize) -> f64 {
        batches as f64 * self.workload.indexed_bytes() / PAGE * self.fitted.release_ns
    }
}

/// Returns the parts of the rows' lines and of the index's lines that a visit of `rows` rows does
/// not touch.
fn untouched(workload: &Workload, rows: usize) -> (f64, f64) {
    let data = (workload.batch_bytes() / LINE).max(1.0);
    let index = (4.0 * workload.rows as f64 / LINE).max(1.0);
    let of_row = (workload.row_bytes as f64 / LINE).clamp(1.0, data);
    (power(1.0 - of_row / data, rows), power(1.0 - 1.0 / index, rows))
}

/// Returns the part of the batches in flight that a domain's cache holds: those made there, the
/// rows that its consumers read, and the index.
fn kept(workload: &Workload, domains: usize, cache_bytes: f64, in_flight: usize) -> f64 {
    let home = 1.0 / domains as f64;
    let read = (home * LINE / workload.row_bytes as f64).clamp(home, 1.0);
    let data = workload.batch_bytes() * (home + (1.0 - home) * read);
    let index = workload.indexed_bytes() - workload.batch_bytes();
    (cache_bytes / (in_flight as f64 * (data + index))).min(1.0)
}

/// Returns `base` to the power of `exponent`. `f64::powi` may differ between platforms.
fn power(base: f64, mut exponent: usize) -> f64 {
    let (mut result, mut square) = (1.0, base);
    while exponent > 0 {
        if exponent % 2 == 1 {
            result *= square;
        }
        square *= square;
        exponent /= 2;
    }
    result
}
