//! Reads and seals pages on one thread.
//!
//! `cargo bench -p annulus-pages --bench page`. Throughput is in tuples, and in bytes of pages.

#[path = "../tests/codec_support/mod.rs"]
mod codec_support;

use annulus_pages::page::{Page, PageLayout, PageReader, PageShape, PayloadSize, seal};
use codec_support::{Rows, page_of};
use divan::{
    Bencher, black_box,
    counter::{BytesCount, ItemsCount},
};

const PAGE_BYTES: usize = 256 << 10;
/// The number of pages of one run: more than the second-level cache holds.
const PAGES: usize = 64;
const SHAPES: [Shape; 4] = [
    Shape(PageLayout::Compact, PayloadSize::Fixed(16)),
    Shape(PageLayout::Slotted, PayloadSize::Fixed(16)),
    Shape(PageLayout::Slotted, PayloadSize::Fixed(100)),
    Shape(PageLayout::Slotted, PayloadSize::Variable),
];

#[derive(Clone, Copy, Debug)]
struct Shape(PageLayout, PayloadSize);

fn main() {
    divan::main();
}

fn pages(Shape(layout, payload): Shape) -> (Vec<Page>, usize) {
    let shape = PageShape::new(PAGE_BYTES, layout, payload).unwrap();
    let mut rows = Rows::new();
    let mut bytes = 0;
    for key in 0_u32.. {
        let size = match payload {
            PayloadSize::Fixed(size) => size as usize,
            PayloadSize::Variable => 60 + key as usize * 7 % 80,
        };
        if !shape.fits(rows.len() + 1, bytes + size) {
            break;
        }
        rows.push((key, vec![key as u8; size]));
        bytes += size;
    }
    let pages = (0..PAGES).map(|_| page_of(&shape, &rows, 0)).collect();
    (pages, rows.len())
}

/// Sums the keys and the first bytes, so that each tuple is touched once.
fn sum(page: &PageReader<'_>) -> u64 {
    page.tuples().map(|(key, payload)| u64::from(key) + u64::from(payload[0])).sum()
}

#[divan::bench(args = SHAPES)]
fn check_and_read(bencher: Bencher<'_, '_>, shape: Shape) {
    let (pages, tuples) = pages(shape);
    let bencher = bencher.counter(ItemsCount::new(PAGES * tuples)).counter(BytesCount::new(PAGES * PAGE_BYTES));
    bencher.bench_local(|| pages.iter().map(|page| sum(&black_box(page).reader().unwrap())).sum::<u64>());
}

#[divan::bench(args = SHAPES)]
fn read(bencher: Bencher<'_, '_>, shape: Shape) {
    let (pages, tuples) = pages(shape);
    let readers: Vec<PageReader<'_>> = pages.iter().map(|page| page.reader().unwrap()).collect();
    let bencher = bencher.counter(ItemsCount::new(PAGES * tuples)).counter(BytesCount::new(PAGES * PAGE_BYTES));
    bencher.bench_local(|| readers.iter().map(|page| sum(black_box(page))).sum::<u64>());
}

#[divan::bench]
fn seal_pages(bencher: Bencher<'_, '_>) {
    let (mut pages, _) = pages(SHAPES[3]);
    let bencher = bencher.counter(BytesCount::new(PAGES * PAGE_BYTES));
    bencher.bench_local(|| pages.iter_mut().for_each(|page| seal(black_box(page), 7).unwrap()));
}

#[divan::bench]
fn open_sealed(bencher: Bencher<'_, '_>) {
    let (mut pages, _) = pages(SHAPES[3]);
    pages.iter_mut().for_each(|page| seal(page, 7).unwrap());
    let bencher = bencher.counter(BytesCount::new(PAGES * PAGE_BYTES));
    bencher.bench_local(|| {
        pages.iter().map(|page| PageReader::sealed(black_box(page.bytes())).unwrap().len()).sum::<usize>()
    });
}
