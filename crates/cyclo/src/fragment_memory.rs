//! The memory that a fragment's columns point into while it is joined: the ring's buffer, or a copy.

use std::sync::Arc;

use annulus_join::JoinError;
use annulus_roundabout::OwnedFragment;
use arrow::buffer::{Buffer, MutableBuffer};
use bytes::Bytes;

/// The memory of the fragment that is being joined, from which columns are read.
pub(crate) enum FragmentMemory {
    /// Columns point into the ring's buffer.
    InPlace,
    /// Columns point into a copy, because they may outlive the fragment: batches with views refer to
    /// its bytes. The memory is reused once nothing refers to it.
    Copied { memory: Option<MutableBuffer>, borrowed: Option<Buffer> },
}

/// A fragment that columns refer to, or a copy of it.
pub(crate) struct BorrowedFragment(Arc<OwnedFragment>);

/// Keeps the ring's buffer alive while columns refer to it.
struct Owner(Arc<OwnedFragment>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl FragmentMemory {
    /// `outlives` says whether columns may outlive their fragment.
    pub(crate) fn new(outlives: bool) -> Self {
        if outlives { Self::Copied { memory: None, borrowed: None } } else { Self::InPlace }
    }

    /// Returns the fragment's bytes for columns that refer to them.
    pub(crate) fn lend(&mut self, fragment: OwnedFragment) -> (BorrowedFragment, Buffer) {
        let fragment = Arc::new(fragment);
        let buffer = match self {
            Self::InPlace => Buffer::from(Bytes::from_owner(Owner(Arc::clone(&fragment)))),
            Self::Copied { memory, borrowed } => {
                let bytes: &[u8] = (*fragment).as_ref();
                let mut copy = memory.take().unwrap_or_else(|| MutableBuffer::new(bytes.len()));
                copy.clear();
                copy.extend_from_slice(bytes);
                let buffer = Buffer::from(copy);
                *borrowed = Some(buffer.clone());
                buffer
            }
        };
        (BorrowedFragment(fragment), buffer)
    }

    /// Takes the fragment back after its columns have been dropped.
    ///
    /// # Errors
    /// If a column still refers to the ring's buffer.
    pub(crate) fn take_back(
        &mut self,
        BorrowedFragment(fragment): BorrowedFragment,
    ) -> Result<OwnedFragment, JoinError> {
        if let Self::Copied { memory, borrowed } = self {
            *memory = borrowed.take().and_then(|buffer| buffer.into_mutable().ok());
        }
        Arc::try_unwrap(fragment).map_err(|_| JoinError::Fragment { what: "a column outlives it in the ring's buffer" })
    }
}

#[cfg(test)]
mod tests {
    use annulus_roundabout::{Host, RingConfig};

    use super::*;
    use crate::CycloError;

    /// Passes the only fragment of a ring of one host, whose bytes are 1, to `join`.
    fn single_host(join: impl Fn(OwnedFragment) -> Result<OwnedFragment, CycloError>) -> Result<(), CycloError> {
        let mut host = Host::single_host(&RingConfig::default().with_fragment_bytes(4096)).unwrap();
        let mut left = 1;
        let fill = |buffer: &mut [u8]| {
            buffer.fill(1);
            left -= 1;
            Ok((left == 0).then_some(4000))
        };
        host.revolve_owned(fill, join).map(drop)
    }

    #[test]
    fn columns_point_into_the_rings_buffer() {
        let joined = single_host(|fragment| {
            let mut memory = FragmentMemory::new(false);
            let place = fragment.as_ref().as_ptr();
            let (borrowed, buffer) = memory.lend(fragment);
            assert_eq!((buffer.as_ptr(), buffer.len()), (place, 4000));
            drop(buffer);
            Ok(memory.take_back(borrowed)?)
        });
        joined.unwrap();
    }

    /// A buffer that columns refer to is not sent on, since the next host would overwrite it.
    #[test]
    fn a_column_that_outlives_its_fragment_is_an_error() {
        let joined = single_host(|fragment| {
            let mut memory = FragmentMemory::new(false);
            let (borrowed, buffer) = memory.lend(fragment);
            let returned = memory.take_back(borrowed);
            assert!(buffer.iter().all(|&byte| byte == 1));
            Ok(returned?)
        });
        assert!(joined.unwrap_err().to_string().contains("outlives"));
    }

    #[test]
    fn a_copy_may_outlive_its_fragment() {
        let joined = single_host(|fragment| {
            let mut memory = FragmentMemory::new(true);
            let place = fragment.as_ref().as_ptr();
            let (borrowed, buffer) = memory.lend(fragment);
            assert_ne!(buffer.as_ptr(), place);
            let mut fragment = memory.take_back(borrowed)?;
            fragment.as_mut().fill(2);
            assert!(buffer.iter().all(|&byte| byte == 1));
            Ok(fragment)
        });
        joined.unwrap();
    }
}
