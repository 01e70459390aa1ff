//! Files with bytes that are wrong: rows or an error, never a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::{basic::Compression, file::properties::WriterPropertiesBuilder};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    matrix::{batch, conditions, properties, with_encodings},
    support::{Extent, ours, stock, write},
};

/// `ANNULUS_DAMAGED` sets the number of damaged files.
#[test]
fn damaged_files_are_rows_or_an_error() {
    let files = std::env::var("ANNULUS_DAMAGED").ok().and_then(|text| text.parse().ok()).unwrap_or(2000_u64);
    for seed in 0..files.div_ceil(100) {
        let mut random = StdRng::seed_from_u64(seed);
        let (nulls, distinct) = ([0, 40][random.random_range(0..2)], [3, 60, 5000][random.random_range(0..3)]);
        let batches = [batch(&mut random, 400, nulls, distinct)];
        let (said, mut chosen) = properties(&mut random);
        if random.random_bool(0.5) {
            chosen = with_encodings(&mut random, chosen, &batches[0].schema());
        }
        // Damage to what is compressed in other ways is found by the checks of decompression, which are not ours.
        let compression = [Compression::UNCOMPRESSED, Compression::SNAPPY][random.random_range(0..2)];
        let file = write(&batches, WriterPropertiesBuilder::from(chosen).set_compression(compression).build());
        let schema = stock(&file, None).schema();
        for round in 0..100 {
            let mut damaged = file.to_vec();
            // Not the footer, whose damage the crate of the same name finds.
            let end = damaged.len() - footer(&damaged);
            for _ in 0..random.random_range(1..6) {
                let at = random.random_range(4..end);
                let bit = 1 << random.random_range(0..8);
                damaged[at] = if random.random() { damaged[at] ^ bit } else { random.random() };
            }
            let conditions = conditions(&mut random, schema.fields().len());
            let (extent, rows) = [(Extent::Whole, 0..400), (Extent::PagesOfRows, 150..310)][round % 2].clone();
            let rows = catch_unwind(AssertUnwindSafe(|| {
                ours(&damaged.into(), &schema, (std::slice::from_ref(&rows), conditions), 64, extent).is_ok()
            }));
            assert!(rows.is_ok(), "seed {seed}, round {round},{said}");
        }
    }
}

/// Returns the bytes of the footer, its length and the last word.
fn footer(file: &[u8]) -> usize {
    let length = file[file.len() - 8..].first_chunk().map(|length| u32::from_le_bytes(*length));
    length.unwrap_or_default() as usize + 8
}
