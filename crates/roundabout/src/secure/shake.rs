//! rustls's handshake over a socket.

use std::io::{Read, Write};

use rustls::{
    CommonState, Error as TlsError, ExtractedSecrets,
    client::{ClientConnectionData, UnbufferedClientConnection},
    kernel::KernelConnection,
    server::{ServerConnectionData, UnbufferedServerConnection},
    unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus},
};

use super::{
    channel::Channel,
    error::SecureError,
    exporter::{Exporter, ExporterSecret},
    identity::PROTOCOL,
    names::HostName,
    records::{HEADER, SEALED_MAX},
    timed::Timed,
    verify::Verifier,
};

/// What comes of a handshake.
pub(super) struct Shaken {
    pub(super) peer: HostName,
    pub(super) exporter: Exporter,
    pub(super) channel: Channel,
}

/// Does this side's part of the handshake. Reads nothing that comes after it.
pub(super) fn shake<S: Side>(
    timed: &Timed,
    mut connection: S,
    verifier: &Verifier,
    secret: &ExporterSecret,
) -> Result<Shaken, SecureError> {
    if let Err(error) = drive(timed, &mut connection) {
        return Err(match verifier.peer() {
            Some(Err(refusal)) => SecureError::Refused(refusal),
            _ => error,
        });
    }
    if connection.state().alpn_protocol() != Some(PROTOCOL) {
        return Err(SecureError::OtherProtocol);
    }
    let Some(Ok(peer)) = verifier.peer() else { return Err(SecureError::NoCertificate) };
    let (secrets, keys) = connection.secrets().map_err(SecureError::Tls)?;
    let missing = |what: &str| SecureError::Tls(TlsError::General(format!("no {what} after the handshake")));
    let suite = keys.negotiated_cipher_suite().tls13().ok_or_else(|| missing("cipher of TLS 1.3"))?;
    let exporter = secret.exporter(suite).ok_or_else(|| missing("secret to export from"))?;
    let channel = Channel::new(suite, secrets, Box::new(keys)).map_err(SecureError::Tls)?;
    Ok(Shaken { peer, exporter, channel })
}

/// The side that connects, and the side that accepts.
pub(super) trait Side {
    type Data: Send + Sync + 'static;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn state(&self) -> &CommonState;
    fn secrets(self) -> Result<(ExtractedSecrets, KernelConnection<Self::Data>), TlsError>;
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn state(&self) -> &CommonState {
        self
    }

    fn secrets(self) -> Result<(ExtractedSecrets, KernelConnection<Self::Data>), TlsError> {
        self.dangerous_into_kernel_connection()
    }
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn state(&self) -> &CommonState {
        self
    }

    fn secrets(self) -> Result<(ExtractedSecrets, KernelConnection<Self::Data>), TlsError> {
        self.dangerous_into_kernel_connection()
    }
}

fn drive(timed: &Timed, connection: &mut impl Side) -> Result<(), SecureError> {
    let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
    loop {
        let UnbufferedStatus { discard, state } = connection.process(&mut incoming);
        let more = match state {
            Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut outgoing).map(|()| false)?,
            Ok(ConnectionState::TransmitTlsData(data)) => {
                (&mut &*timed).write_all(&outgoing).map_err(|error| timed.explain(error))?;
                outgoing.clear();
                data.done();
                false
            }
            Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => true,
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => return Err(SecureError::Closed),
            Ok(_) => return Err(SecureError::OtherProtocol),
            Err(error) => {
                incoming.drain(..discard);
                send_alert(timed, connection, &mut incoming);
                return Err(SecureError::from_tls(error));
            }
        };
        incoming.drain(..discard);
        if more && !connection.state().is_handshaking() {
            return Ok(());
        }
        if more {
            read_record(timed, &mut incoming)?;
        }
    }
}

/// Tells the other side why the handshake ends, if that is possible.
fn send_alert(timed: &Timed, connection: &mut impl Side, incoming: &mut Vec<u8>) {
    let mut alert = Vec::new();
    loop {
        let UnbufferedStatus { discard, state } = connection.process(incoming);
        let Ok(ConnectionState::EncodeTlsData(data)) = state else { break };
        if encode(data, &mut alert).is_err() {
            break;
        }
        incoming.drain(..discard);
    }
    // Whoever gets no alert sees the connection end.
    let _ = (&mut &*timed).write_all(&alert);
}

fn encode<Data>(mut data: EncodeTlsData<'_, Data>, outgoing: &mut Vec<u8>) -> Result<(), SecureError> {
    let start = outgoing.len();
    let encoded = match data.encode(&mut []) {
        Err(EncodeError::InsufficientSize(needed)) => {
            outgoing.resize(start + needed.required_size, 0);
            data.encode(&mut outgoing[start..])
        }
        other => other,
    };
    encoded.map(drop).map_err(|error| SecureError::Tls(TlsError::General(error.to_string())))
}

/// Reads one record and not a byte of the next, which may be for after the handshake.
fn read_record(timed: &Timed, incoming: &mut Vec<u8>) -> Result<(), SecureError> {
    let mut header = [0; HEADER];
    (&mut &*timed).read_exact(&mut header).map_err(|error| timed.explain(error))?;
    let [kind, major, _, high, low] = header;
    let bytes = usize::from(u16::from_be_bytes([high, low]));
    // Checked before the rest is waited for, which something else than TLS would not send.
    if !(20..=23).contains(&kind) || major != 3 || bytes > SEALED_MAX {
        return Err(SecureError::NotTls);
    }
    incoming.extend_from_slice(&header);
    let start = incoming.len();
    incoming.resize(start + bytes, 0);
    (&mut &*timed).read_exact(&mut incoming[start..]).map_err(|error| timed.explain(error))
}
