//! Batches in memory: which domains have their lines, what a visit costs, and what production costs.

use crate::{
    Fitted, Machine, Workload,
    parameters::{HEADER_LINES, JITTER, STREAM_OVERLAP},
    random::Random,
    workload::{LINE, PAGE},
};

/// The size from which an allocation is mapped by itself: `M_MMAP_THRESHOLD` of mallopt(3).
const MAPPED_BYTES: f64 = 131_072.0;

/// What a domain has of a batch.
#[derive(Clone, Copy, Debug)]
struct Copy {
    /// The part of the rows' lines that it has not fetched.
    data_left: f64,
    /// The part of the index's lines that it has not fetched.
    index_left: f64,
    /// Whether it has visited the batch.
    visited: bool,
    /// The bytes that its cache had taken in when the batch was used last.
    stamp: f64,
}

const NOTHING: Copy = Copy { data_left: 1.0, index_left: 1.0, visited: false, stamp: f64::NEG_INFINITY };

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
    fitted: Fitted,
    /// The time to move a byte to or from a socket's memory, in ns.
    byte_ns: f64,
    memory_free_at: Vec<f64>,
    map_free_at: f64,
    /// Bytes that each domain's cache has taken in.
    taken_in: Vec<f64>,
    batches: Vec<Batch>,
    copies: Vec<Copy>,
    free: Vec<usize>,
    random: Random,
    #[cfg(test)]
    produced: usize,
}

impl Memory {
    pub(crate) fn new(machine: &Machine, fitted: &Fitted, workload: Workload, seed: u64) -> Self {
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
            taken_in: vec![0.0; domains],
            batches: Vec::new(),
            copies: Vec::new(),
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
        let cycles = self.fitted.row_cycles * workload.rows as f64 + self.fitted.fill_cycles * bytes;
        let work = self.cycles(cycles) * spread;
        let memory = &mut self.memory_free_at[self.sockets[domain]];
        *memory = memory.max(now) + bytes * self.fitted.traffic * self.byte_ns;
        let mut end = memory.max(now + work);
        if fresh || (workload.sizes == crate::RowSizes::Normal && bytes >= MAPPED_BYTES) {
            let pages = workload.indexed_bytes() / PAGE;
            self.map_free_at = self.map_free_at.max(now) + pages * self.fitted.map_ns;
            end = end.max(self.map_free_at);
        }
        self.taken_in[domain] += workload.indexed_bytes();
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
            self.copies.extend((0..self.domains).map(|_| NOTHING));
            self.batches.len() - 1
        });
        self.batches[number] = batch;
        let copies = &mut self.copies[number * self.domains..][..self.domains];
        copies.fill(NOTHING);
        copies[home] = Copy { data_left: 0.0, index_left: 0.0, visited: true, stamp: self.taken_in[home] };
        number
    }

    /// Returns how many batches were produced before this one.
    #[cfg(test)]
    pub(crate) fn serial(&self, number: usize) -> usize {
        self.batches[number].serial
    }

    /// Returns the time of one consumer in `domain` to read its `rows` rows of a batch. The last
    /// reader frees the batch.
    pub(crate) fn visit(&mut self, number: usize, domain: usize, rows: usize) -> f64 {
        let workload = self.workload;
        let Batch { home, left, .. } = &mut self.batches[number];
        let home = *home;
        *left -= 1;
        if *left == 0 {
            self.free.push(number);
        }
        let has = |copy: Copy, domain: usize| self.taken_in[domain] - copy.stamp < self.cache_bytes;
        let at_home = has(self.copies[number * self.domains + home], home);
        let copy = &mut self.copies[number * self.domains + domain];
        if !has(*copy, domain) {
            *copy = NOTHING;
        }
        let near = self.between[domain * (self.domains + 1)];
        let away =
            if at_home && home != domain { self.between[home * self.domains + domain] } else { self.fitted.memory_ns };
        let mixed = |left: f64| left * away + (1.0 - left) * near;
        let overlap = (self.fitted.overlap_bytes / workload.row_bytes as f64).max(1.0);
        let lines = workload.lines_of_row() * mixed(copy.data_left) + mixed(copy.index_left);
        let header = if copy.visited { near } else { away };
        let own = if copy.data_left > 0.0 { away } else { near };
        let wait = rows as f64 * lines / overlap + HEADER_LINES * header + own;

        let data_lines = (workload.batch_bytes() / LINE).max(1.0);
        let index_lines = (4.0 * workload.rows as f64 / LINE).max(1.0);
        let row_lines = (workload.row_bytes as f64 / LINE).max(1.0);
        let (data_kept, index_kept) =
            (power(1.0 - (row_lines / data_lines).min(1.0), rows), power(1.0 - 1.0 / index_lines, rows));
        let fetched =
            copy.data_left * (1.0 - data_kept) * data_lines + copy.index_left * (1.0 - index_kept) * index_lines;
        self.taken_in[domain] += fetched * LINE;
        copy.data_left *= data_kept;
        copy.index_left *= index_kept;
        copy.visited = true;
        copy.stamp = self.taken_in[domain];
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
