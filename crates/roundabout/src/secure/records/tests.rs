use proptest::prelude::*;
use rustls::{
    ConnectionTrafficSecrets as Secrets, ContentType, Error as TlsError,
    crypto::cipher::{AeadKey, Iv},
};

use super::{
    DATA_MAX, Keys, Opener, Progress, Sealer,
    key::{RecordKey, SEAL},
};

/// Keys that follow each other, and how many were asked for.
struct Series {
    secrets: fn([u8; 32], [u8; 12]) -> Secrets,
    sealing: u8,
    opening: u8,
}

const AES: fn([u8; 32], [u8; 12]) -> Secrets =
    |key, iv| Secrets::Aes256Gcm { key: AeadKey::from(key), iv: Iv::from(iv) };
const CHACHA: fn([u8; 32], [u8; 12]) -> Secrets =
    |key, iv| Secrets::Chacha20Poly1305 { key: AeadKey::from(key), iv: Iv::from(iv) };

impl Series {
    fn new(secrets: fn([u8; 32], [u8; 12]) -> Secrets) -> Self {
        Self { secrets, sealing: 0, opening: 0 }
    }

    fn number(&self, number: u8) -> Secrets {
        (self.secrets)([number; 32], [!number; 12])
    }
}

impl Keys for Series {
    fn next_to_seal(&mut self) -> Result<Secrets, TlsError> {
        self.sealing += 1;
        Ok(self.number(self.sealing))
    }

    fn next_to_open(&mut self) -> Result<Secrets, TlsError> {
        self.opening += 1;
        Ok(self.number(self.opening))
    }
}

/// All data on the wire, and how often the key changed.
fn open_all(mut wire: &[u8], keys: &mut Series, into: usize) -> Result<(Vec<u8>, u64), TlsError> {
    let mut opener = Opener::new(keys.number(0), 0)?;
    let (mut data, mut changes, mut buffer) = (Vec::new(), 0, vec![0; into]);
    loop {
        let ready = opener.is_ready();
        let progress = opener.open(&mut buffer, keys)?;
        assert_eq!(ready, progress != Progress::Incomplete);
        match progress {
            Progress::Incomplete if opener.fill(&mut wire).unwrap() == 0 => return Ok((data, changes)),
            Progress::Incomplete | Progress::Farewell => {}
            Progress::Data(bytes) => data.extend_from_slice(&buffer[..bytes]),
            Progress::KeyUpdate { asked } => {
                assert!(!asked);
                changes += 1;
            }
            Progress::Alert(alert) => panic!("{alert:?}"),
        }
    }
}

proptest! {
    #[test]
    fn keys_are_changed_before_they_are_worn_out(
        pieces in prop::collection::vec(prop_oneof![1..100usize, 16_380..16_390usize], 1..30),
        used_max in 3..9u64,
        into in prop_oneof![1..50usize, 16_380..16_420usize],
        chacha: bool,
    ) {
        let mut keys = Series::new(if chacha { CHACHA } else { AES });
        let mut sealer = Sealer::new(keys.number(0), 0, used_max).unwrap();
        let (mut wire, mut expected) = (Vec::new(), Vec::new());
        for (number, bytes) in pieces.iter().enumerate() {
            let data: Vec<u8> = (0..*bytes).map(|place| (place + number) as u8).collect();
            let mut rest = &data[..];
            while !rest.is_empty() {
                if sealer.is_full() {
                    sealer.write_to(&mut wire).unwrap();
                }
                rest = &rest[sealer.seal(rest, &mut keys).unwrap()..];
            }
            expected.extend(data);
        }
        sealer.seal_farewell().unwrap();
        sealer.write_to(&mut wire).unwrap();
        let records: u64 = pieces.iter().map(|bytes| bytes.div_ceil(DATA_MAX) as u64).sum();
        let (data, changes) = open_all(&wire, &mut keys, into).unwrap();
        prop_assert!(data == expected);
        // Of each key's records, one is for its change and one for the farewell.
        prop_assert_eq!(changes, (records - 1) / (used_max - 2));
    }

    #[test]
    fn whatever_is_on_the_wire_is_data_or_an_error(
        wire in prop::collection::vec(any::<u8>(), 0..600),
        likely: bool,
    ) {
        let mut wire = wire;
        if likely && wire.len() > 5 {
            let bytes = wire.len() - 5;
            wire[..5].copy_from_slice(&[23, 3, 3, (bytes >> 8) as u8, bytes as u8]);
        }
        // Nothing that was not sealed is taken for data.
        if let Ok((data, _)) = open_all(&wire, &mut Series::new(AES), 100) {
            prop_assert!(data.is_empty());
        }
    }
}

/// What a record with this content, the kind included, is opened as.
fn open_content(content: &[u8], room: usize) -> Result<(ContentType, Vec<u8>), TlsError> {
    let keys = Series::new(AES);
    let mut record = vec![0; content.len() + SEAL];
    let (last, data) = content.split_last().unwrap();
    let bytes = RecordKey::new(keys.number(0), 7)?.seal(ContentType::from(*last), data, &mut record)?;
    let mut into = vec![0; room];
    let opened = RecordKey::new(keys.number(0), 7)?.open(&mut record[5..bytes], &mut into)?;
    let from = if opened.there { &into } else { &record[5..] };
    Ok((opened.kind, from[..opened.bytes].to_vec()))
}

#[test]
fn padding_is_taken_off() {
    for room in [0, 100] {
        for (content, kind, data) in [
            (b"hello\x17".as_slice(), ContentType::ApplicationData, b"hello".as_slice()),
            (b"hello\x17\0\0\0\0", ContentType::ApplicationData, b"hello"),
            (b"hello\0\x17\0", ContentType::ApplicationData, b"hello\0"),
            (b"\x01\0\x15\0", ContentType::Alert, b"\x01\0"),
            (b"\x17\0", ContentType::ApplicationData, b""),
        ] {
            assert_eq!(open_content(content, room).unwrap(), (kind, data.to_vec()));
        }
        assert!(open_content(&[0; 9], room).is_err(), "a record without a kind");
    }
}
