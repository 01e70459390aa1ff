//! Any bytes are refused as a page or can be read to the end.
#![no_main]

use annulus_pages::page::{HEADER_BYTES, MIN_PAGE_BYTES, PageReader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    // Bytes at both ends, and zeros between, so that small inputs are pages, too.
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    let mut page = vec![0; MIN_PAGE_BYTES];
    if bytes.len() <= page.len() {
        page[..head.len()].copy_from_slice(head);
        let tail_at = page.len() - tail.len();
        page[tail_at..].copy_from_slice(tail);
        read(&page);
        // Without a checksum, which no fuzzer guesses.
        page[48..56].fill(0);
        read(&page);
    }
});

fn read(bytes: &[u8]) {
    let Ok(page) = PageReader::new(bytes) else { return };
    let mut sum = 0;
    for (i, (key, payload)) in page.tuples().enumerate() {
        assert_eq!((page.key(i), page.payload(i)), (key, payload));
        assert!(payload.as_ptr().addr() >= bytes.as_ptr().addr() + HEADER_BYTES + 4 * page.len());
        sum += payload.len();
    }
    assert_eq!(sum, page.header().payload_bytes as usize);
}
