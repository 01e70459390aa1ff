//! Checks that the scanner and the decoder agree about the ends of records.

use proptest::prelude::*;

use super::records::{Scanner, Syntax};

/// Returns the ends of the records in `pieces`, and whether more follows the last of them.
fn ends(syntax: Syntax, pieces: &[&[u8]]) -> (Vec<usize>, bool) {
    let mut scanner = Scanner::new(syntax);
    let (mut ends, mut before, mut last) = (vec![], 0, 0);
    for piece in pieces {
        let mut at = 0;
        while let Some(end) = scanner.end_of_record(&piece[at..]) {
            at += end;
            last = before + at;
            ends.push(last);
        }
        before += piece.len();
    }
    let rest: Vec<u8> = pieces.concat().split_off(last);
    (ends, !rest.iter().all(|byte| matches!(byte, b'\n' | b'\r')))
}

/// Returns where each record but the first begins for the `csv` crate: after the one before.
fn starts(bytes: &[u8]) -> Vec<usize> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let records = reader.byte_records().map(|record| record.unwrap().position().unwrap().byte() as usize);
    records.skip(1).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn escapes_and_comments_are_those_of_the_decoder(text in "[a#,\\\\\"\n\r]{0,40}") {
        // The decoder makes a record of a comment at the end that has no line end.
        let text = format!("{text}\n");
        let bytes = text.as_bytes();
        let syntax = Syntax::Csv { delimiter: b',', quote: b'"', escape: Some(b'\\'), comment: Some(b'#') };
        let mut scanner = Scanner::new(syntax);
        let (mut records, mut at) = (0, 0);
        while let Some(end) = scanner.end_of_record(&bytes[at..]) {
            at += end;
            records += 1;
        }
        let mut reader = csv::ReaderBuilder::new();
        reader.has_headers(false).flexible(true).escape(Some(b'\\')).comment(Some(b'#'));
        let all = reader.from_reader(bytes).into_byte_records().count();
        let rest = &bytes[at + Scanner::new(syntax).blanks(&bytes[at..])..];
        prop_assert_eq!(records + usize::from(!rest.is_empty()), all);
    }

    #[test]
    fn csv_records_end_where_the_decoder_ends_them(
        text in "[a,\"\n\r ]{0,40}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let bytes = text.as_bytes();
        let syntax = Syntax::Csv { delimiter: b',', quote: b'"', escape: None, comment: None };
        let (found, more) = ends(syntax, &[bytes]);
        // The last record may have no line end, and nothing may follow the last.
        let mut expected = starts(bytes);
        let complete = if more { found.len() } else { found.len().saturating_sub(1) };
        expected.truncate(complete);
        prop_assert_eq!(&found[..complete], &expected[..]);
        let reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
        let records = reader.into_byte_records().count();
        prop_assert_eq!(found.len() + usize::from(more), records);

        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        prop_assert_eq!(ends(syntax, &pieces), (found, more));
    }
}
