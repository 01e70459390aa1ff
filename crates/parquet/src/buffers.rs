//! Memory of decompressed pages, used again for the pages after them.

use std::{mem, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;

/// The most buffers that wait to be used again.
const MOST_BUFFERS: usize = 8;
/// The most bytes of one that waits.
const MOST_BYTES: usize = 4 << 20;

/// Buffers for decompressed pages. Fresh memory is cleared by the system, and again to be initialised; these
/// are cleared once, and are in the cache.
///
/// A buffer comes back when the last reference to the page's bytes is dropped, by whichever thread. At most 8 buffers
/// of up to 4 MiB wait.
#[derive(Debug, Clone, Default)]
pub struct PageBuffers(Arc<Mutex<Vec<Vec<u8>>>>);

/// The bytes of a page.
struct Page {
    /// At least `length`.
    bytes: Vec<u8>,
    length: usize,
    buffers: PageBuffers,
}

impl PageBuffers {
    /// Returns `length` bytes that `fill` has written.
    ///
    /// # Errors
    /// Those of `fill`.
    pub(crate) fn filled<E>(&self, length: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Bytes, E> {
        let mut bytes = self.take(length).unwrap_or_else(|| vec![0; length]);
        fill(&mut bytes[..length])?;
        Ok(Bytes::from_owner(Page { bytes, length, buffers: self.clone() }))
    }

    /// Returns a buffer that has room for `length` bytes, but not for many more, which the page would keep.
    fn take(&self, length: usize) -> Option<Vec<u8>> {
        let mut waiting = self.0.lock();
        let fits = |bytes: &Vec<u8>| (length..=length.saturating_mul(2)).contains(&bytes.len());
        let place = waiting.iter().rposition(fits)?;
        Some(waiting.remove(place))
    }

    fn give_back(&self, bytes: Vec<u8>) {
        if bytes.len() > MOST_BYTES {
            return;
        }
        let mut waiting = self.0.lock();
        // The oldest one is the least likely to fit, or to be in the cache.
        let oldest = (waiting.len() == MOST_BUFFERS).then(|| waiting.remove(0));
        waiting.push(bytes);
        drop(waiting);
        drop(oldest);
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.buffers.give_back(mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn page(buffers: &PageBuffers, length: usize, byte: u8) -> Bytes {
        let fill = |bytes: &mut [u8]| {
            bytes.fill(byte);
            Ok::<_, Infallible>(())
        };
        buffers.filled(length, fill).unwrap()
    }

    #[test]
    fn memory_comes_back_when_nothing_refers_to_it() {
        let buffers = PageBuffers::default();
        let first = page(&buffers, 100, 1);
        let (address, part) = (first.as_ptr(), first.slice(90..));
        drop(first);
        let second = page(&buffers, 100, 2);
        assert_ne!(second.as_ptr(), address);
        assert_eq!(part[..], [1; 10]);
        drop(part);
        let third = page(&buffers, 70, 3);
        assert_eq!((third.as_ptr(), third.len()), (address, 70));
        drop(third);
        // Half of it would be kept for nothing.
        assert_ne!(page(&buffers, 49, 4).as_ptr(), address);
        assert!(buffers.filled(90, |_| Err("no")).is_err());
    }

    #[test]
    fn few_buffers_wait_and_no_large_ones() {
        let buffers = PageBuffers::default();
        let pages: Vec<_> = (0..20).map(|number| page(&buffers, 1000 + number, 0)).collect();
        drop(pages);
        drop(page(&buffers, MOST_BYTES + 1, 0));
        let waiting: Vec<_> = buffers.0.lock().iter().map(Vec::len).collect();
        assert_eq!(waiting, (1012..1020).collect::<Vec<_>>());
    }
}
