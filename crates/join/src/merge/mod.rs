//! The sort-merge join (cyclo-join, section IV.C): both sides are sorted once, and each sorted
//! fragment is merged with the build side.
//!
//! ```text
//! build side batches --prepare_build--> MergeBuild -------------------------+
//! probe side batches --prepare_probe--> sorted batches --(anywhere)--> fragment --probe--> pairs
//! ```
//! A fragment is a sorted batch. Keys that are costly to derive travel with it (`travel.rs`); a
//! host derives the others from its columns. An unsorted fragment gives the same pairs, but takes
//! longer.

mod asof;
mod comparison;
mod condition;
mod cursor;
mod edge;
mod gather;
mod keys;
mod probe;
mod second;
mod sort;
mod spans;
mod travel;
pub(crate) mod words;

use std::{ops::Range, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, SchemaRef},
    row::{RowConverter, SortField},
};

pub(crate) use asof::partition_point_near;
pub use asof::{AsOfBytes, AsOfComparison, AsOfIndex, AsOfKeys, AsOfProbe};
pub use comparison::{BandParts, Comparison, Term};
pub use condition::{Band, KeyPair, MergeCondition, Offset};
pub use probe::{MergePosition, ProbeLimits};

use crate::{error::JoinError, pairs::RequiredPairs, sink::PairSink};
use edge::Edges;
use gather::{Source, with_schema};
use keys::{Column, Encoder, KeyColumns, Keys, num_rows};
use probe::Merge;
use sort::sorted_rows;
use spans::Spans;
use words::{Kind, shape};

/// A sort-merge join of two sides. Threads may share it.
///
/// ```
/// use std::{ops::Bound, sync::Arc};
///
/// use annulus_join::{Band, JoinError, KeyPair, MergeCondition, MergeJoin, Offset, PairSink, RequiredPairs};
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// struct Print;
///
/// impl PairSink for Print {
///     fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
///         Ok(build.iter().zip(probe).for_each(|(build, probe)| println!("{build} and {probe}")))
///     }
/// }
///
/// let side = |times: Vec<i64>| RecordBatch::try_from_iter([("t", Arc::new(Int64Array::from(times)) as ArrayRef)]);
/// let (build, probe) = (side(vec![10, 20, 30])?, side(vec![12, 29])?);
/// // Times that are at most 2 apart.
/// let (low, high) = (Bound::Included(Offset::Int(-2)), Bound::Included(Offset::Int(2)));
/// let band = Band { keys: KeyPair { build: 0, probe: 0 }, low, high };
/// let condition = MergeCondition { band: Some(band), ..MergeCondition::default() };
///
/// let join = MergeJoin::try_new(&condition, &build.schema(), &probe.schema())?;
/// let sorted = join.prepare_build(vec![build], 1)?;
/// let mut pairs = 0;
/// for batch in join.prepare_probe(vec![probe], 1 << 20, 1)? {
///     let fragment = join.fragment(&batch)?;
///     pairs += join.probe(&sorted, &fragment, 0..batch.num_rows() as u32, RequiredPairs::All, &mut Print)?;
/// }
/// assert_eq!(pairs, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MergeJoin {
    build: SideColumns,
    probe: SideColumns,
    encoder: Encoder,
    edges: Option<BandEdges>,
    second: Option<BandEdges>,
}

#[derive(Debug)]
struct SideColumns {
    schema: SchemaRef,
    keys: KeyColumns,
}

#[derive(Clone, Copy, Debug)]
enum BandEdges {
    Words(Edges<u64>),
    Wide(Edges<u128>),
}

/// The index of the build side's second key.
#[derive(Debug)]
enum SecondIndex {
    Nothing,
    Words(Spans<u64>),
    Wide(Spans<u128>),
}

/// The sorted build side of a merge join, with an index of the key of the second band.
#[derive(Debug)]
pub struct MergeBuild {
    batch: RecordBatch,
    keys: Box<Keys>,
    second: Box<SecondIndex>,
    /// The number of rows that may match, which come first.
    rows: usize,
}

/// A sorted fragment of the probe side, with its keys.
#[derive(Debug)]
pub struct MergeFragment {
    batch: RecordBatch,
    keys: Keys,
}

impl MergeBuild {
    /// Returns all rows, sorted. Pairs refer to them by their index in this batch.
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// Returns the memory of rows and keys in bytes. O(columns).
    pub fn memory_bytes(&self) -> usize {
        let index = match &*self.second {
            SecondIndex::Nothing => 0,
            SecondIndex::Words(spans) => spans.memory_bytes(),
            SecondIndex::Wide(spans) => spans.memory_bytes(),
        };
        self.batch.get_array_memory_size() + self.keys.memory_bytes() + index
    }
}

impl MergeFragment {
    /// Returns the rows. Pairs refer to them by their index in this batch.
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }
}

impl MergeJoin {
    /// Returns a join of sides with these columns.
    ///
    /// # Errors
    /// If `condition` names a column that does not exist, two keys have different types, or this
    /// join cannot compare them.
    pub fn try_new(condition: &MergeCondition, build: &SchemaRef, probe: &SchemaRef) -> Result<Self, JoinError> {
        let types = condition.equal.iter().enumerate();
        let types = types.map(|(index, keys)| key_type(index, *keys, build, probe)).collect::<Result<Vec<_>, _>>()?;
        for (index, data_type) in types.iter().enumerate() {
            if !RowConverter::supports_fields(&[SortField::new(data_type.clone())]) {
                return Err(JoinError::KeyUnsupported { index, data_type: data_type.clone() });
            }
        }
        let equal = types.len();
        let edges = |index, band: Option<Band>| band.map(|band| band_edges(index, band, build, probe)).transpose();
        let band = edges(equal, condition.band)?;
        let second = edges(equal + usize::from(band.is_some()), condition.second)?;
        let data_type = |band: &Option<(DataType, BandEdges)>| band.as_ref().map(|(data_type, _)| data_type.clone());
        let encoder = Encoder::new(types, condition.nulls_equal, [data_type(&band), data_type(&second)])?;
        let side = |schema: &SchemaRef, column: fn(&KeyPair) -> usize| SideColumns {
            schema: Arc::clone(schema),
            keys: KeyColumns {
                equal: condition.equal.iter().map(column).collect(),
                band: condition.band.map(|band| column(&band.keys)),
                high: None,
                second: condition.second.map(|band| column(&band.keys)),
            },
        };
        let (build, mut probe) = (side(build, |keys| keys.build), side(probe, |keys| keys.probe));
        if let Some((high, band)) = condition.high_key.zip(condition.band) {
            key_type(equal, KeyPair { probe: high, ..band.keys }, &build.schema, &probe.schema)?;
            probe.keys.high = Some(high);
        }
        let [edges, second] = [band, second].map(|band| band.map(|(_, edges)| edges));
        Ok(Self { build, probe, encoder, edges, second })
    }

    /// Sorts the build side, on up to `threads` threads. O(rows), or O(rows * log rows) for keys
    /// without a fixed width. Takes the batches' memory once more. Equal keys and the band each
    /// take another 8 or 16 bytes per row, or the bytes of Arrow's row format, and a second band up
    /// to 25. Sorting itself takes up to 36 bytes per row.
    ///
    /// # Errors
    /// [`JoinError::TooManyRows`]. [`JoinError::Arrow`] if a batch has other columns, or the rows
    /// do not fit into one batch: columns with more than 2 GiB of strings must be views or large
    /// strings.
    pub fn prepare_build(&self, batches: Vec<RecordBatch>, threads: usize) -> Result<MergeBuild, JoinError> {
        let (source, order) = self.sort(&self.build, batches, threads)?;
        let batch = source.batch(order, threads)?;
        let keys = self.keys(&self.build, std::slice::from_ref(&batch), threads)?;
        let unmatched = keys.nulls.as_ref().map_or(0, |nulls| nulls.null_count());
        let rows = batch.num_rows() - unmatched;
        let second = match &keys.second {
            Column::Words(words) => SecondIndex::Words(Spans::new(&words[..rows])),
            Column::Wide(words) => SecondIndex::Wide(Spans::new(&words[..rows])),
            _ => SecondIndex::Nothing,
        };
        Ok(MergeBuild { rows, batch, keys: Box::new(keys), second: Box::new(second) })
    }

    /// Sorts a part of the probe side, and cuts it into fragments that share no memory. Each has at
    /// most `max_bytes` bytes of memory, or one row. Costs as much as
    /// [`prepare_build`](Self::prepare_build).
    ///
    /// # Errors
    /// [`JoinError::TooManyRows`] for more than 4294967295 rows: sort the side in several parts.
    /// [`JoinError::Arrow`] if a batch has other columns.
    pub fn prepare_probe(
        &self,
        batches: Vec<RecordBatch>,
        max_bytes: usize,
        threads: usize,
    ) -> Result<Vec<RecordBatch>, JoinError> {
        let (source, order) = self.sort(&self.probe, batches, threads)?;
        Ok(source.fragments(&order, max_bytes, threads)?)
    }

    /// Returns whether equal keys are sorted and compared as bytes: strings, nested types, several
    /// columns of more than 16 bytes together, and nulls that match. Other keys are numbers, which
    /// a radix sort puts in order.
    pub fn compares_bytes(&self) -> bool {
        self.encoder.keys_travel()
    }

    /// Prepares a batch of [`prepare_probe`](Self::prepare_probe), of this host or another one, for
    /// joining. O(rows). Equal keys and the band each take 8 or 16 bytes per row.
    ///
    /// # Errors
    /// [`JoinError::Fragment`] if its columns are not those of the probe side.
    pub fn fragment(&self, batch: &RecordBatch) -> Result<MergeFragment, JoinError> {
        let batch = self.checked(batch)?;
        let keys = self.keys(&self.probe, std::slice::from_ref(&batch), 1)?;
        Ok(MergeFragment { batch, keys })
    }

    /// Returns a batch of the probe side with the side's schema.
    fn checked(&self, batch: &RecordBatch) -> Result<RecordBatch, JoinError> {
        if u32::try_from(batch.num_rows()).is_err() {
            return Err(JoinError::Fragment { what: "it has more than 4294967295 rows" });
        }
        with_schema(&self.probe.schema, batch)
            .map_err(|_| JoinError::Fragment { what: "its columns are not those of the probe side" })
    }

    /// Gives the wanted pairs of `rows`, a range of the fragment's rows, to `sink`, and returns
    /// their number. A range should have about ten thousand rows or more. O(rows + pairs) if the
    /// fragment is sorted.
    ///
    /// # Errors
    /// [`JoinError::Fragment`] if build side or fragment were made for another join, or the first
    /// error of the sink.
    ///
    /// With a second band, each run of rows that match it takes O(log build rows) more. If the
    /// second band has two bounds, or [`RequiredPairs::OneOfEachBuildRow`] are wanted, it may take longer:
    /// rows that only meet one bound are visited, or pairs of rows that have a pair already.
    pub fn probe(
        &self,
        build: &MergeBuild,
        fragment: &MergeFragment,
        rows: Range<u32>,
        wanted: RequiredPairs,
        sink: &mut impl PairSink,
    ) -> Result<u64, JoinError> {
        let mut position = MergePosition::at_row(rows.start);
        let limits = ProbeLimits { end: rows.end, required: wanted, most: u64::MAX };
        self.probe_some(build, fragment, &mut position, limits, sink)
    }

    /// Passes the required pairs of a fragment's rows from a position on to `sink`, within the
    /// limits, and returns their number. Moves the position behind them. All pairs of the rows
    /// before the end have been found when the position's row is the end, or the fragment's number
    /// of rows. A caller that has other work to do in between calls this repeatedly, with a small
    /// limit.
    /// O(log build rows + rows + pairs) if the fragment is sorted.
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    pub fn probe_some(
        &self,
        build: &MergeBuild,
        fragment: &MergeFragment,
        position: &mut MergePosition,
        limits: ProbeLimits,
        sink: &mut impl PairSink,
    ) -> Result<u64, JoinError> {
        let ProbeLimits { end, required: wanted, most } = limits;
        let end = end.min(fragment.batch.num_rows() as u32);
        Merge { build, fragment, edges: [self.edges, self.second], end, wanted, most, place: position }.run(sink)
    }

    fn sort(
        &self,
        side: &SideColumns,
        batches: Vec<RecordBatch>,
        threads: usize,
    ) -> Result<(Source, Vec<u32>), JoinError> {
        let rows = num_rows(&batches);
        let number = u32::try_from(rows).map_err(|_| JoinError::TooManyRows { rows })?;
        let source = Source::new(&side.schema, batches, threads)?;
        let keys = self.keys(side, source.groups(), threads)?;
        Ok((source, sorted_rows(&keys, number, threads)))
    }

    fn keys(&self, side: &SideColumns, batches: &[RecordBatch], threads: usize) -> Result<Keys, JoinError> {
        Ok(self.encoder.encode(batches, &side.keys, threads)?)
    }
}

/// Returns the type of two keys.
fn key_type(index: usize, keys: KeyPair, build: &SchemaRef, probe: &SchemaRef) -> Result<DataType, JoinError> {
    let (build, probe) = (build.project(&[keys.build])?, probe.project(&[keys.probe])?);
    let (build, probe) = (build.field(0).data_type().clone(), probe.field(0).data_type().clone());
    if build == probe { Ok(build) } else { Err(JoinError::KeyTypes { index, build, probe }) }
}

fn band_edges(
    index: usize,
    band: Band,
    build: &SchemaRef,
    probe: &SchemaRef,
) -> Result<(DataType, BandEdges), JoinError> {
    let data_type = key_type(index, band.keys, build, probe)?;
    let edges = match shape(&data_type) {
        Some((16, Kind::Float)) | None => return Err(JoinError::KeyUnsupported { index, data_type }),
        Some(shape @ (128, _)) => Edges::new(band.low, band.high, shape).map(BandEdges::Wide),
        Some(shape) => Edges::new(band.low, band.high, shape).map(BandEdges::Words),
    };
    match edges {
        Some(edges) => Ok((data_type, edges)),
        None => Err(JoinError::BandFraction { index, data_type }),
    }
}
