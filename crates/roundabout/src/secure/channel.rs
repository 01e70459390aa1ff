//! Data over sealed records, both ways, wherever the records come from and go to.

use std::io::{self, IoSlice, Read, Write};

use rustls::{Error as TlsError, ExtractedSecrets, Tls13CipherSuite};

use super::{
    error::SecureError,
    records::{Keys, Opener, Progress, Sealer},
};

/// Both directions of a connection after its handshake.
pub(super) struct Channel {
    keys: Box<dyn Keys>,
    sealer: Sealer,
    opener: Opener,
    /// The other side has said farewell.
    ended: bool,
    /// This side has.
    closed: bool,
    /// Why nothing more is read: the other side has given up, or what came in is not what it sealed.
    failed: Option<TlsError>,
}

impl Channel {
    pub(super) fn new(
        suite: &'static Tls13CipherSuite,
        secrets: ExtractedSecrets,
        keys: Box<dyn Keys>,
    ) -> Result<Self, TlsError> {
        let sealer = Sealer::new(secrets.tx.1, secrets.tx.0, suite.common.confidentiality_limit)?;
        let opener = Opener::new(secrets.rx.1, secrets.rx.0)?;
        Ok(Self { keys, sealer, opener, ended: false, closed: false, failed: None })
    }

    /// Whether the next read finds a record, or the end, without reading.
    pub(super) fn has_input(&self) -> bool {
        self.ended || self.failed.is_some() || self.opener.is_ready()
    }

    /// Whether sealed data waits to be written.
    pub(super) fn wants_write(&self) -> bool {
        self.sealer.is_waiting()
    }

    /// Data, at most that of one record; 0 if the other side has said farewell.
    pub(super) fn read(&mut self, from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() || self.ended {
            return Ok(0);
        }
        if let Some(error) = &self.failed {
            return Err(failure(error.clone()));
        }
        loop {
            match self.opener.open(into, &mut *self.keys) {
                Ok(Progress::Data(0)) => {}
                Ok(Progress::Data(bytes)) => return Ok(bytes),
                Ok(Progress::Incomplete) => {
                    if self.opener.fill(from)? == 0 {
                        return Err(SecureError::Truncated.into());
                    }
                }
                Ok(Progress::KeyUpdate { asked }) => {
                    if asked {
                        self.sealer.renew();
                    }
                }
                Ok(Progress::Farewell) => {
                    self.ended = true;
                    return Ok(0);
                }
                Ok(Progress::Alert(alert)) => return Err(self.fail(TlsError::AlertReceived(alert))),
                Err(error) => return Err(self.fail(error)),
            }
        }
    }

    /// Seals slices and writes them. Says how many bytes were sealed; what is not written then is left for later.
    pub(super) fn write(&mut self, to: &mut impl Write, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        // What an earlier call left; if it cannot go out, nothing more is sealed.
        self.sealer.write_to(to)?;
        let mut sealed = 0;
        for slice in slices {
            let mut rest = &**slice;
            while !rest.is_empty() {
                if self.sealer.is_full() && !self.write_or_leave(to)? {
                    return Ok(sealed);
                }
                let bytes = self.sealer.seal(rest, &mut *self.keys).map_err(SecureError::Tls)?;
                sealed += bytes;
                rest = &rest[bytes..];
            }
        }
        self.write_or_leave(to)?;
        Ok(sealed)
    }

    /// Writes what is left.
    pub(super) fn flush(&mut self, to: &mut impl Write) -> io::Result<()> {
        self.sealer.write_to(to)
    }

    /// Says farewell, once, and writes what is left.
    pub(super) fn close(&mut self, to: &mut impl Write) -> io::Result<()> {
        if !self.closed {
            self.sealer.seal_farewell().map_err(SecureError::Tls)?;
            self.closed = true;
        }
        self.sealer.write_to(to)
    }

    fn fail(&mut self, error: TlsError) -> io::Error {
        self.failed = Some(error.clone());
        failure(error)
    }

    /// Whether everything went out. What the socket would have to wait for is left.
    fn write_or_leave(&mut self, to: &mut impl Write) -> io::Result<bool> {
        match self.sealer.write_to(to) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn failure(error: TlsError) -> io::Error {
    let error = match error {
        TlsError::AlertReceived(alert) => SecureError::RefusedUs(alert),
        other => SecureError::Tls(other),
    };
    error.into()
}
