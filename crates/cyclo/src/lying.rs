//! Where a fragment lies while it is joined: in the ring's buffer, or in a copy.

use std::sync::Arc;

use annulus_join::JoinError;
use annulus_roundabout::OwnedFragment;
use arrow::buffer::{Buffer, MutableBuffer};
use bytes::Bytes;

/// Makes the memory of one fragment after another readable as columns.
pub(crate) enum Lying {
    /// In the ring's buffer.
    InPlace,
    /// In a copy, because columns may outlive the fragment: batches with views refer to its bytes.
    /// The memory is reused if nothing refers to it any more.
    Copied { memory: Option<MutableBuffer>, lent: Option<Buffer> },
}

/// A fragment that columns refer to, or a copy of it.
pub(crate) struct Lent(Arc<OwnedFragment>);

/// Keeps the ring's buffer while columns refer to it.
struct Owner(Arc<OwnedFragment>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl Lying {
    /// `outlives` says whether columns may outlive their fragment.
    pub(crate) fn new(outlives: bool) -> Self {
        if outlives { Self::Copied { memory: None, lent: None } } else { Self::InPlace }
    }

    /// Returns the fragment's bytes for columns that refer to them.
    pub(crate) fn lend(&mut self, fragment: OwnedFragment) -> (Lent, Buffer) {
        let fragment = Arc::new(fragment);
        let buffer = match self {
            Self::InPlace => Buffer::from(Bytes::from_owner(Owner(Arc::clone(&fragment)))),
            Self::Copied { memory, lent } => {
                let bytes: &[u8] = (*fragment).as_ref();
                let mut copy = memory.take().unwrap_or_else(|| MutableBuffer::new(bytes.len()));
                copy.clear();
                copy.extend_from_slice(bytes);
                let buffer = Buffer::from(copy);
                *lent = Some(buffer.clone());
                buffer
            }
        };
        (Lent(fragment), buffer)
    }

    /// Takes the fragment back after its columns have been dropped.
    ///
    /// # Errors
    /// If a column still refers to the ring's buffer.
    pub(crate) fn take_back(&mut self, Lent(fragment): Lent) -> Result<OwnedFragment, JoinError> {
        if let Self::Copied { memory, lent } = self {
            *memory = lent.take().and_then(|buffer| buffer.into_mutable().ok());
        }
        Arc::try_unwrap(fragment).map_err(|_| JoinError::Fragment { what: "a column outlives it in the ring's buffer" })
    }
}

#[cfg(test)]
mod tests {
    use annulus_roundabout::{Host, RingConfig};

    use super::*;
    use crate::CycloError;

    /// Lends the only fragment of a ring of one host, whose bytes are 1, to `join`.
    fn alone(join: impl Fn(OwnedFragment) -> Result<OwnedFragment, CycloError>) -> Result<(), CycloError> {
        let mut host = Host::alone(&RingConfig::default().with_fragment_bytes(4096)).unwrap();
        let mut left = 1;
        let fill = |buffer: &mut [u8]| {
            buffer.fill(1);
            left -= 1;
            Ok((left == 0).then_some(4000))
        };
        host.revolve_owned(fill, join).map(drop)
    }

    #[test]
    fn a_fragment_lies_in_the_rings_buffer() {
        let joined = alone(|fragment| {
            let mut lying = Lying::new(false);
            let place = fragment.as_ref().as_ptr();
            let (lent, buffer) = lying.lend(fragment);
            assert_eq!((buffer.as_ptr(), buffer.len()), (place, 4000));
            drop(buffer);
            Ok(lying.take_back(lent)?)
        });
        joined.unwrap();
    }

    /// A buffer that something refers to is not handed on, where it would be overwritten.
    #[test]
    fn a_column_that_outlives_its_fragment_is_an_error() {
        let joined = alone(|fragment| {
            let mut lying = Lying::new(false);
            let (lent, buffer) = lying.lend(fragment);
            let returned = lying.take_back(lent);
            assert!(buffer.iter().all(|&byte| byte == 1));
            Ok(returned?)
        });
        assert!(joined.unwrap_err().to_string().contains("outlives"));
    }

    #[test]
    fn a_copy_may_outlive_its_fragment() {
        let joined = alone(|fragment| {
            let mut lying = Lying::new(true);
            let place = fragment.as_ref().as_ptr();
            let (lent, buffer) = lying.lend(fragment);
            assert_ne!(buffer.as_ptr(), place);
            let mut fragment = lying.take_back(lent)?;
            fragment.as_mut().fill(2);
            assert!(buffer.iter().all(|&byte| byte == 1));
            Ok(fragment)
        });
        joined.unwrap();
    }
}
