//! Damaged files give an error that names the file or, if the damage cannot be detected, rows. They
//! never cause a panic.

mod support;

use std::{fs, panic};

use annulus_dataset::{BadRows, DatasetError, InputOptions};
use proptest::prelude::*;
use support::{Kind, open, rich_table};
use tempfile::tempdir;

const BINARY: [Kind; 4] = [Kind::Parquet, Kind::IpcFile, Kind::IpcStream, Kind::Pages];

/// Returns a file's bytes.
fn whole(kind: Kind) -> Vec<u8> {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t");
    kind.write(&path, &rich_table(0, 300), 100);
    fs::read(&path).unwrap()
}

/// Returns the result of reading a file of these bytes: its number of rows, or the error, which
/// names it.
fn outcome(kind: Kind, bytes: &[u8]) -> Result<usize, DatasetError> {
    let folder = tempdir().unwrap();
    let path = folder.path().join(format!("damaged.{}", kind.extension()));
    fs::write(&path, bytes).unwrap();
    let options = InputOptions::default().with_on_bad_row(BadRows::Skip);
    let rows = open(&path, &options).and_then(|dataset| read_rows(&dataset));
    if let Err(error) = &rows {
        let told = error.to_string();
        assert!(told.contains("damaged."), "{told}");
    }
    rows
}

fn read_rows(dataset: &annulus_dataset::Dataset) -> Result<usize, DatasetError> {
    let mut rows = 0;
    for unit in &dataset.units {
        for decoded in unit.read()? {
            rows += decoded?.batch.num_rows();
        }
    }
    Ok(rows)
}

#[test]
fn whole_files_are_read() {
    for kind in BINARY {
        assert_eq!(outcome(kind, &whole(kind)).unwrap(), 300);
    }
}

#[test]
fn a_file_that_is_cut_short_anywhere_is_an_error() {
    for kind in BINARY {
        let bytes = whole(kind);
        for end in (0..bytes.len()).step_by(97).chain(bytes.len() - 20..bytes.len()) {
            assert!(outcome(kind, &bytes[..end]).is_err(), "{kind:?} cut at {end} of {}", bytes.len());
        }
    }
}

#[test]
fn a_damaged_row_group_is_an_error_whatever_becomes_of_bad_rows() {
    let mut bytes = whole(Kind::Parquet);
    bytes[4..600].fill(0xa5);
    let told = outcome(Kind::Parquet, &bytes).unwrap_err().to_string();
    assert!(told.contains("row group 0") && told.contains("never by whole row groups"), "{told}");
}

#[test]
fn a_stream_without_its_end_is_an_error() {
    let bytes = whole(Kind::IpcStream);
    assert_eq!(bytes[bytes.len() - 8..], [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    let told = outcome(Kind::IpcStream, &bytes[..bytes.len() - 8]).unwrap_err().to_string();
    assert!(told.contains("cut short"), "{told}");
}

#[test]
fn files_of_other_kinds_are_errors() {
    for kind in BINARY {
        for other in BINARY.into_iter().chain([Kind::Csv]) {
            if kind.format() != other.format() {
                let folder = tempdir().unwrap();
                let path = folder.path().join("t");
                other.write(&path, &support::plain_table(0, 300), 100);
                assert!(outcome(kind, &fs::read(&path).unwrap()).is_err(), "{other:?} as {kind:?}");
            }
        }
    }
    assert!(outcome(Kind::Json, b"[{\"a\": 1}").unwrap_err().to_string().contains("JSON array"));
    assert!(outcome(Kind::Json, b"\x00\x01\x02").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bytes_that_are_flipped_give_an_error_or_rows(
        kind in prop::sample::select(BINARY.to_vec()),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
        last in any::<bool>(),
    ) {
        thread_local!(static FILES: [Vec<u8>; 4] = BINARY.map(whole));
        let place = BINARY.iter().position(|of| *of == kind).unwrap();
        let mut bytes = FILES.with(|files| files[place].clone());
        // Metadata is at the end, and would rarely be hit otherwise.
        let first = if last { bytes.len().saturating_sub(3000) } else { 0 };
        let span = bytes.len() - first;
        for (index, bits) in flips {
            bytes[first + index.index(span)] ^= bits;
        }
        let caught = panic::catch_unwind(|| outcome(kind, &bytes).is_ok());
        prop_assert!(caught.is_ok());
    }
}
