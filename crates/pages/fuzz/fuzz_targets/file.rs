//! Any bytes are refused as a page file or can be read to the end.
#![no_main]

use std::io::Cursor;

use annulus_pages::{codec::RowCodec, file::PageFileReader};
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::xxh3_64;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    // With the right checksum of the header, which no fuzzer guesses, and an end, so that the schema is reached.
    if let Some(fixed) = bytes.first_chunk::<64>() {
        let mut bytes = bytes.to_vec();
        let schema = u32::from_le_bytes([fixed[32], fixed[33], fixed[34], fixed[35]]) as usize;
        let Some(end) = schema.checked_add(64).filter(|&end| end <= bytes.len()) else { return };
        bytes.truncate(end);
        bytes[56..64].fill(0);
        let checksum = xxh3_64(&bytes);
        bytes[56..64].copy_from_slice(&checksum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        let mut index = vec![0; 16];
        index.extend(xxh3_64(&index).to_le_bytes());
        index.extend(b"AnPgDone");
        bytes.extend(index);
        read(&bytes);
    }
});

fn read(bytes: &[u8]) {
    let Ok(mut file) = PageFileReader::open(Cursor::new(bytes)) else { return };
    let codec = RowCodec::new(file.header().schema.clone());
    let mut buffer = Vec::new();
    for page in 0..file.pages() {
        let Ok(page) = file.read(page, &mut buffer) else { continue };
        if let Ok(codec) = &codec {
            codec.batches(page.tuples().map(|(_, payload)| payload), 100).for_each(drop);
        }
    }
}
