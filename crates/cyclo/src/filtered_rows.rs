//! Rows of the probe side on their way through a key filter.
//!
//! A build side of several parts has a filter for each part: a row rotates only in the revolutions
//! in which it may have a partner. So the host stores all rows as the caller supplied them, and
//! prepares those that pass the filter in each revolution.
//!
//! ```text
//! first revolution  rows ──┬──────────────────────────> filter of part 0 ──> prepared, sent
//!                          └──> kept, unprepared ──┐
//! each later one                                   └──> filter of its part ──> prepared, sent
//! ```

use std::sync::Arc;

use annulus_join::{Fragment, FragmentFormat, JoinError};
use annulus_rows::rows_bytes;
use arrow::{
    array::RecordBatch,
    buffer::{Buffer, MutableBuffer},
    datatypes::SchemaRef,
};

use crate::{
    CycloError, RowSink, RowSource,
    feed::offer,
    fragment_store::{FragmentCursor, FragmentStore},
    key_filter::ProbeFilter,
};

/// The rows that the caller feeds, filtered by their keys in each revolution.
pub(crate) struct FilteredRows<'k> {
    /// The rows for further revolutions, if there are any.
    kept: Option<StoredRows<'k>>,
    /// The most bytes of rows that the caller gave at a time.
    wave_bytes: usize,
}

struct StoredRows<'k> {
    store: FragmentStore<'k>,
    format: Arc<FragmentFormat>,
    fragment_bytes: usize,
    encoded: Vec<u8>,
}

impl<'k> FilteredRows<'k> {
    /// Begins without rows. They are kept in `kept`, in pieces of at most `fragment_bytes` bytes.
    ///
    /// # Errors
    /// If a column's type cannot be kept.
    pub(crate) fn new(
        kept: Option<FragmentStore<'k>>,
        schema: &SchemaRef,
        fragment_bytes: usize,
    ) -> Result<Self, JoinError> {
        let keyless = |kept| {
            let format = Arc::new(FragmentFormat::keyless(schema)?);
            Ok::<_, JoinError>(StoredRows { store: kept, format, fragment_bytes, encoded: vec![0; fragment_bytes] })
        };
        Ok(Self { kept: kept.map(keyless).transpose()?, wave_bytes: 0 })
    }

    /// Passes the rows of the first revolution, from `probe`, through `filter` to `give`.
    ///
    /// # Errors
    /// The errors of `probe` and `give`, and if rows cannot be kept.
    pub(crate) fn first(
        &mut self,
        filter: &ProbeFilter<'_>,
        probe: &RowSource<'_>,
        give: &mut RowSink<'_>,
    ) -> Result<(), JoinError> {
        let mut collector = WaveCollector::new(filter);
        offer(probe, |batches| {
            self.wave_bytes = self.wave_bytes.max(bytes_of(&batches));
            if let Some(kept) = &mut self.kept {
                kept.push(&batches).map_err(outside)?;
            }
            collector.pass(batches, self.wave_bytes, give)
        })?;
        collector.finish(give)
    }

    /// Passes the rows of a later revolution, which were kept in the first one, through `filter` to
    /// `give`.
    ///
    /// # Errors
    /// The errors of `give`, and if rows cannot be read.
    pub(crate) fn again(&self, filter: &ProbeFilter<'_>, give: &mut RowSink<'_>) -> Result<(), JoinError> {
        let Some(kept) = &self.kept else { return Ok(()) };
        let (mut collector, mut cursor) = (WaveCollector::new(filter), FragmentCursor::default());
        while let Some(batch) = kept.read(&mut cursor)? {
            collector.pass(vec![batch], self.wave_bytes, give)?;
        }
        collector.finish(give)
    }

    /// Returns the stored rows.
    pub(crate) fn store(&self) -> Option<&FragmentStore<'k>> {
        self.kept.as_ref().map(|rows| &rows.store)
    }
}

impl StoredRows<'_> {
    fn push(&mut self, batches: &[RecordBatch]) -> Result<(), CycloError> {
        for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
            for piece in Fragment::in_order(&self.format, batch, 1, self.fragment_bytes)? {
                let bytes = piece.encode(&mut self.encoded)?;
                self.store.push(&self.encoded[..bytes])?;
            }
        }
        Ok(())
    }

    fn read(&self, cursor: &mut FragmentCursor) -> Result<Option<RecordBatch>, JoinError> {
        let Some(bytes) = self.store.size(cursor) else { return Ok(None) };
        let mut encoded = MutableBuffer::from_len_zeroed(bytes);
        self.store.read(cursor, &mut encoded).map_err(outside)?;
        let piece = Fragment::decode(&self.format, Buffer::from(encoded))?;
        Ok(Some(piece.batch().clone()))
    }
}

/// Collects the rows that a filter lets pass, so that as many are prepared together as the caller
/// gives at a time: fragments then are full, and meet few partitions.
struct WaveCollector<'a> {
    filter: &'a ProbeFilter<'a>,
    passed: Vec<RecordBatch>,
    bytes: usize,
}

impl<'a> WaveCollector<'a> {
    fn new(filter: &'a ProbeFilter<'a>) -> Self {
        Self { filter, passed: Vec::new(), bytes: 0 }
    }

    /// Calls `give` when about `wave_bytes` bytes have passed, and with no more.
    fn pass(&mut self, batches: Vec<RecordBatch>, wave_bytes: usize, give: &mut RowSink<'_>) -> Result<(), JoinError> {
        let passed = self.filter.keep(batches)?;
        let bytes = bytes_of(&passed);
        if self.bytes + bytes > wave_bytes {
            self.finish(give)?;
        }
        self.bytes += bytes;
        self.passed.extend(passed);
        if self.bytes >= wave_bytes { self.finish(give) } else { Ok(()) }
    }

    fn finish(&mut self, give: &mut RowSink<'_>) -> Result<(), JoinError> {
        self.bytes = 0;
        if self.passed.is_empty() { Ok(()) } else { give(std::mem::take(&mut self.passed)) }
    }
}

fn bytes_of(batches: &[RecordBatch]) -> usize {
    batches.iter().map(rows_bytes).sum()
}

fn outside(error: CycloError) -> JoinError {
    match error {
        CycloError::Join(error) => error,
        error => JoinError::Outside(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use annulus_join::{CancelToken, KeyFilterKind, Keys};
    use annulus_roundabout::{Host, RingConfig};
    use arrow::{
        array::{ArrayRef, BooleanArray, Int64Array, StringViewArray},
        compute::filter_record_batch,
    };

    use super::*;
    use crate::StoreConfig;

    const AT_A_TIME: usize = 1000;

    fn rows(numbers: Range<i64>) -> RecordBatch {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.clone()));
        let texts = numbers.map(|number| Some(format!("the text of number {number:05}")));
        let texts: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
        RecordBatch::try_from_iter([("a", Arc::clone(&ids)), ("b", Arc::clone(&ids)), ("c", ids), ("text", texts)])
            .unwrap()
    }

    #[derive(Debug)]
    struct Wave {
        rows: usize,
        bytes: usize,
    }

    fn waves(pass: impl FnOnce(&mut RowSink<'_>) -> Result<(), JoinError>) -> Vec<Wave> {
        let mut waves = Vec::new();
        let mut give = |batches: Vec<RecordBatch>| {
            let rows = batches.iter().map(RecordBatch::num_rows).sum();
            waves.push(Wave { rows, bytes: batches.iter().map(RecordBatch::get_array_memory_size).sum() });
            Ok(())
        };
        pass(&mut give).unwrap();
        waves
    }

    /// This also holds in later revolutions, when the rows come in pieces of the store.
    #[test]
    fn waves_are_about_as_large_as_what_the_caller_gives() {
        let schema = rows(0..0).schema();
        let keys = Keys::new(&schema, &[0], false).unwrap();
        let mut host = Host::single_host(&RingConfig::default()).unwrap();
        for of_five in 1..=5 {
            let build = rows(0..10_000);
            let has: BooleanArray = (0..10_000).map(|id| Some(id % 5 < of_five)).collect();
            let build = filter_record_batch(&build, &has).unwrap();
            let filter =
                ProbeFilter::make(KeyFilterKind::Exact, (&keys, &keys), &build, &mut host, &CancelToken::new());
            let (filter, _) = filter.unwrap();
            let config = StoreConfig::in_memory();
            let mut filtered = FilteredRows::new(Some(FragmentStore::new(&config)), &schema, 4096).unwrap();
            let probe = |give: &mut RowSink<'_>| {
                let starts = (0..10_000).step_by(AT_A_TIME);
                starts.into_iter().try_for_each(|start| give(vec![rows(start..start + AT_A_TIME as i64)]))
            };
            let first = waves(|give| filtered.first(&filter, &probe, give));
            let given = rows(0..AT_A_TIME as i64).get_array_memory_size();
            assert!(first.iter().all(|wave| wave.bytes < 2 * given), "{of_five}: {first:?}");
            for waves in [first, waves(|give| filtered.again(&filter, give))] {
                let rows: Vec<usize> = waves.iter().map(|wave| wave.rows).collect();
                assert_eq!(rows.iter().sum::<usize>(), 2000 * of_five as usize);
                let (last, others) = rows.split_last().unwrap();
                assert!(others.iter().all(|rows| (AT_A_TIME / 2..=AT_A_TIME).contains(rows)), "{of_five}: {rows:?}");
                assert!(*last <= AT_A_TIME, "{of_five}: {rows:?}");
            }
        }
    }
}
