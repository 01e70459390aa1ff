//! Connections of which one side speaks TLS, and the other does not.

use std::{collections::BTreeSet, error::Error, io};

use parking_lot::Mutex;

use crate::error::causes_of;

/// The addresses of workers that have sent an alert of TLS on a plain connection. A request that waits for
/// the connection then fails with an error that does not have the cause.
static SPEAKING_TLS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The side of a connection that does not speak TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TlsMismatch {
    #[error(
        "the worker does not speak TLS: it was started without certificates; leave out `certificates`, or start it \
         with certificates"
    )]
    Worker,
    #[error("the worker speaks TLS: give the certificate of a submitter of its ring (`certificates`)")]
    Client,
}

impl TlsMismatch {
    /// Returns the mismatch that is a cause of an error of the connection to the worker at `address`, or that
    /// the worker is known to have.
    pub(super) fn find_in(error: &(dyn Error + 'static), address: &str) -> Option<Self> {
        let found = causes_of(error).find_map(|cause| {
            let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            inner.and_then(|inner| inner.downcast_ref()).or_else(|| cause.downcast_ref()).copied()
        });
        found.or_else(|| SPEAKING_TLS.lock().contains(address).then_some(Self::Client))
    }

    /// Notes whether the worker at `address` speaks TLS on a plain connection.
    pub(super) fn note(address: &str, speaks_tls: bool) {
        let mut speaking = SPEAKING_TLS.lock();
        match speaks_tls {
            true => drop(speaking.insert(address.to_owned())),
            false => drop(speaking.remove(address)),
        }
    }
}

impl From<TlsMismatch> for io::Error {
    fn from(mismatch: TlsMismatch) -> Self {
        Self::new(io::ErrorKind::InvalidData, mismatch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_is_found_among_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("the transport failed")]
        struct Transport(#[source] io::Error);

        let error = Transport(TlsMismatch::Worker.into());
        assert_eq!(TlsMismatch::find_in(&error, "a:1"), Some(TlsMismatch::Worker));
        let other = Transport(io::ErrorKind::BrokenPipe.into());
        assert_eq!(TlsMismatch::find_in(&other, "noted:1"), None);
        TlsMismatch::note("noted:1", true);
        assert_eq!(TlsMismatch::find_in(&other, "noted:1"), Some(TlsMismatch::Client));
        TlsMismatch::note("noted:1", false);
        assert_eq!(TlsMismatch::find_in(&other, "noted:1"), None);
    }
}
