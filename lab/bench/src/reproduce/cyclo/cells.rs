//! The measurements that the figures need.

use super::{
    args::{CycloJoinArgs, Figure},
    fabric::Provider,
};
use crate::{
    join::{By, Link},
    words::name,
};

/// A ring to measure for a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) figure: Figure,
    pub(super) rows: u64,
    pub(super) zipf: Option<f64>,
    pub(super) by: By,
    pub(super) link: Link,
    pub(super) hosts: u16,
    pub(super) threads: usize,
    pub(super) one_at_a_time: bool,
    /// The ratio of the transfer time to the time of the joins of a host, if the links have a limit.
    pub(super) limit: Option<f64>,
}

impl Cell {
    /// Returns what tells its result from those of all other cells.
    pub(super) fn key(&self) -> String {
        let Self { figure, rows, zipf, by, link, hosts, threads, one_at_a_time, limit } = self;
        format!(
            "figure {}, {}, {rows} rows, zipf {zipf:?}, {}, {hosts} hosts, {threads} threads, alone {one_at_a_time}, \
             limit {limit:?}",
            figure.number(),
            name(by),
            name(link)
        )
    }
}

/// The number of hosts of the paper's ring.
pub(super) const PAPER_HOSTS: u16 = 6;
/// The numbers of hosts: the paper's, and more.
const HOSTS: [u16; 8] = [1, 2, 3, 4, 5, 6, 8, 12];
const THREADS: [usize; 4] = [1, 2, 3, 4];
/// How many times as long the transfer takes as the joins of a host: as in the paper's largest ring,
/// and more.
pub(super) const LIMITS: [f64; 3] = [1.36, 2.0, 4.0];
/// Zipf's exponents, in tenths.
const TENTHS: [u8; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/// Returns the cells of the figures in `args`. Cells with the same tables are consecutive.
pub(super) fn cells(args: &CycloJoinArgs, providers: &[Provider]) -> Vec<Cell> {
    args.figures.iter().flat_map(|&figure| cells_of(figure, args, providers)).collect()
}

/// Returns a ring whose hosts run one at a time, and the same all at once: over TCP without a
/// limit, and with each of [`LIMITS`].
fn limited(alone: Cell) -> Vec<Cell> {
    let together = Cell { link: Link::Tcp, one_at_a_time: false, ..alone };
    let limits = LIMITS.map(|times| Cell { limit: Some(times), ..together });
    if alone.hosts == 1 { vec![alone] } else { [vec![alone, together], limits.into()].concat() }
}

fn cells_of(figure: Figure, args: &CycloJoinArgs, providers: &[Provider]) -> Vec<Cell> {
    let by = if matches!(figure, Figure::Sort | Figure::SortGrowing) { By::Sort } else { By::Hash };
    let cell = |rows, hosts| Cell {
        figure,
        rows,
        zipf: None,
        by,
        link: Link::Shared,
        hosts,
        threads: 1,
        one_at_a_time: true,
        limit: None,
    };
    let growing = || (1..=PAPER_HOSTS).map(|hosts| cell(args.more_rows * u64::from(hosts), hosts));
    match figure {
        Figure::Cost | Figure::Transfer => Vec::new(),
        Figure::Hash => {
            let alone = HOSTS.map(|hosts| cell(args.rows, hosts));
            let together = HOSTS.map(|hosts| Cell { one_at_a_time: false, ..cell(args.rows, hosts) });
            [alone, together].concat()
        }
        Figure::Sort => (1..=PAPER_HOSTS).map(|hosts| cell(args.rows, hosts)).collect(),
        Figure::HashGrowing => growing().collect(),
        Figure::SortGrowing => growing().flat_map(limited).collect(),
        Figure::Zipf => {
            let cell = |tenths: u8, hosts| Cell { zipf: Some(f64::from(tenths) / 10.0), ..cell(args.zipf_rows, hosts) };
            TENTHS.iter().flat_map(|&tenths| [1, PAPER_HOSTS].map(|hosts| cell(tenths, hosts))).collect()
        }
        Figure::Links => {
            let cell =
                |threads, link| Cell { link, threads, one_at_a_time: false, ..cell(args.link_rows, PAPER_HOSTS) };
            let own = [Link::Shared, Link::Tcp, Link::Tls].into_iter();
            let links: Vec<_> = own.chain(providers.iter().map(|provider| provider.link)).collect();
            THREADS.iter().flat_map(|&threads| links.iter().map(move |&link| cell(threads, link))).collect()
        }
    }
}
