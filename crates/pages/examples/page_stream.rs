//! Pair threads partition tuples onto pages of 4 KiB, and two others take complete pages while more
//! fill.
//!
//! `cargo run -p annulus-pages --example page_stream`

use std::{error::Error, thread};

use annulus_pages::{
    PageLayout, PageShape, PageStream, PagesError, PayloadSize, Payloads, Pool, StreamConfig, StreamWriter, Tuples,
    stream,
};

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::new(4096, 1 << 20)?; // at most 1 MiB of pages
    let shape = PageShape::new(4096, PageLayout::Slotted, PayloadSize::Fixed(8))?;
    let (writers, pages) = stream(StreamConfig::new(16, 2, shape, pool))?; // 16 partitions, 2 writers
    thread::scope(|scope| {
        for (number, writer) in (0..).zip(writers) {
            scope.spawn(move || write(writer, number).expect("the consumers take all pages"));
        }
        for _ in 0..2 {
            scope.spawn(|| println!("a consumer took {} tuples", count(&pages).expect("no writer fails")));
        }
    });
    Ok(())
}

/// Writes 100,000 tuples in batches. Each goes to partition `key % 16`.
fn write(mut writer: StreamWriter, number: u32) -> Result<(), PagesError> {
    for batch in 0..100 {
        let keys: Vec<u32> = (0..1000).map(|i| number * 100_000 + batch * 1000 + i).collect();
        let bytes: Vec<u8> = keys.iter().flat_map(|key| u64::from(*key).to_le_bytes()).collect();
        writer.write(&Tuples::new(&keys, Payloads::Fixed { bytes: &bytes, size: 8 })?)?;
    }
    writer.finish()
}

fn count(pages: &PageStream) -> Result<usize, Box<dyn Error>> {
    let mut tuples = 0;
    while let Some(page) = pages.next()? {
        // All tuples of a page are of `page.partition()`. Dropping the page frees its memory.
        tuples += page.reader()?.len();
    }
    Ok(tuples)
}
