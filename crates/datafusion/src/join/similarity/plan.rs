//! A similarity join as `annulus-join` runs it.

use annulus_join::{
    MOST_PAIRS, TextBuild, TextFragment, TextJoin, TextPosition, VectorBlock, VectorPosition, vector_pairs,
};
use arrow::{
    array::{Array, ArrayRef, BooleanArray, RecordBatch},
    buffer::NullBuffer,
    compute::nullif,
};
use datafusion::{
    common::{
        hash_utils::{RandomState, create_hashes},
        internal_err,
    },
    error::Result,
    physical_plan::joins::{NestedLoopJoinExec, utils::JoinFilter},
};

use super::condition::{Condition, Likeness};
use crate::{
    error::from_join,
    join::{
        band::narrowed,
        morsels::{Method, Names, RowsPlan, Step, whole},
    },
};

/// The seed of the hashes of equal keys.
const KEY_SEED: u64 = 0x6b65_7973;

/// A join of rows whose texts or vectors are similar, with the left side as the build side.
pub struct SimilarityPlan {
    rows: RowsPlan,
    condition: Condition,
}

/// Rows of a side, with what finds pairs of them.
pub struct SideIndex<T> {
    batch: RecordBatch,
    values: T,
}

/// The left side's texts or vectors.
pub enum LeftValues {
    Texts(TextBuild),
    Vectors(VectorBlock),
}

/// The right side's texts or vectors.
pub enum RightValues {
    Texts(TextFragment),
    Vectors(VectorBlock),
}

/// The position in a morsel and a part. Each likeness has one of its own.
#[derive(Default)]
pub struct Position {
    texts: TextPosition,
    vectors: Option<VectorPosition>,
}

impl SimilarityPlan {
    /// Returns the texts of rows and the hashes of their equal keys, if there are such. A text whose row has a null
    /// key is null: it matches nothing.
    fn texts(batch: &RecordBatch, keys: &[usize]) -> Result<(ArrayRef, Option<Vec<u64>>)> {
        let [texts, equal @ ..] = keys else { return internal_err!("a similarity join without texts") };
        let texts = batch.column(*texts);
        if equal.is_empty() {
            return Ok((ArrayRef::clone(texts), None));
        }
        let columns: Vec<&ArrayRef> = equal.iter().map(|&key| batch.column(key)).collect();
        let mut hashes = vec![0; batch.num_rows()];
        create_hashes(columns.iter().copied(), &RandomState::with_seed(KEY_SEED), &mut hashes)?;
        let nulls =
            columns.iter().fold(None, |nulls, key| NullBuffer::union(nulls.as_ref(), key.logical_nulls().as_ref()));
        let texts = match nulls {
            Some(valid) => nullif(texts, &BooleanArray::new(!valid.inner(), None))?,
            None => ArrayRef::clone(texts),
        };
        Ok((texts, Some(hashes)))
    }
}

impl Method for SimilarityPlan {
    type Left = SideIndex<LeftValues>;
    type Right = SideIndex<RightValues>;
    type Position = Position;

    const NAMES: Names = Names {
        operator: "SimilarityJoinExec",
        join: "similarity join",
        algorithm: None,
        prepare_time: "index_time",
        pairs: "similar_pairs",
    };
    /// The index of texts, and what is sorted for it.
    const ROW_BYTES: usize = 168;
    /// Large morsels share work for equal texts.
    const MORSEL_ROWS: usize = 1 << 15;
    /// Text of a morsel has offsets of 32 bits.
    const MORSEL_BYTES: usize = 1 << 30;

    fn from_plan(stock: &NestedLoopJoinExec) -> Result<Option<Self>> {
        let Some(filter) = stock.filter() else { return Ok(None) };
        let Some(condition) = Condition::from_filter(filter) else { return Ok(None) };
        let rest = condition.rest.as_ref().map(|rest| narrowed(filter, rest)).transpose()?;
        let filtered = rest.as_ref().map_or(&[][..], JoinFilter::column_indices);
        let rows = RowsPlan::new(stock, |side| condition.keys[side].iter(), filtered)?.with_filter(rest);
        Ok(Some(Self { rows, condition }))
    }

    fn facts(&self, _stock: &NestedLoopJoinExec) -> Vec<(&'static str, String)> {
        let mut facts = vec![("similar", self.condition.predicate.to_string())];
        facts.extend(self.condition.rest.as_ref().map(|rest| ("filter", rest.to_string())));
        facts
    }

    fn rows(&self) -> &RowsPlan {
        &self.rows
    }

    fn left(&self, batches: Vec<RecordBatch>, threads: usize) -> Result<Vec<Self::Left>> {
        let side = &self.rows.sides.left;
        let batch = whole(&side.schema, batches)?;
        let values = match self.condition.likeness {
            Likeness::Texts(condition) => {
                let (texts, hashes) = Self::texts(&batch, &side.keys)?;
                let build = TextJoin::new(condition).prepare_build(&texts, hashes.as_deref(), threads);
                LeftValues::Texts(build.map_err(from_join)?)
            }
            Likeness::Vectors(metric, _) => {
                LeftValues::Vectors(VectorBlock::try_new(batch.column(side.keys[0]), metric).map_err(from_join)?)
            }
        };
        Ok(vec![SideIndex { batch, values }])
    }

    fn left_batch(left: &Self::Left) -> &RecordBatch {
        &left.batch
    }

    fn left_bytes<'a>(parts: impl Iterator<Item = &'a Self::Left>) -> usize {
        let bytes = |part: &Self::Left| {
            let values = match &part.values {
                LeftValues::Texts(texts) => texts.memory_bytes(),
                LeftValues::Vectors(vectors) => vectors.memory_bytes(),
            };
            part.batch.get_array_memory_size() + values
        };
        parts.map(bytes).sum()
    }

    fn right(&self, batches: Vec<RecordBatch>) -> Result<Self::Right> {
        let side = &self.rows.sides.right;
        let batch = whole(&side.schema, batches)?;
        let values = match self.condition.likeness {
            Likeness::Texts(condition) => {
                let (texts, hashes) = Self::texts(&batch, &side.keys)?;
                let fragment = TextJoin::new(condition).prepare_probe(&texts, hashes.as_deref());
                RightValues::Texts(fragment.map_err(from_join)?)
            }
            Likeness::Vectors(metric, _) => {
                RightValues::Vectors(VectorBlock::try_new(batch.column(side.keys[0]), metric).map_err(from_join)?)
            }
        };
        Ok(SideIndex { batch, values })
    }

    fn right_batch(right: &Self::Right) -> &RecordBatch {
        &right.batch
    }

    fn join(&self, step: Step<'_, Self>) -> Result<(usize, bool)> {
        let Step { left, right: (right, rows), place, output, writer } = step;
        let mut sink = writer.sink(&left.rows, rows);
        let most = MOST_PAIRS as u64;
        match (self.condition.likeness, &left.left.values, &right.values) {
            (Likeness::Texts(condition), LeftValues::Texts(build), RightValues::Texts(fragment)) => {
                let position = &mut place.texts;
                let join = TextJoin::new(condition);
                let found = join.probe_some(build, fragment, position, output.wanted(), most, &mut sink);
                Ok((found.map_err(from_join)? as usize, position.is_end()))
            }
            (Likeness::Vectors(_, threshold), LeftValues::Vectors(build), RightValues::Vectors(fragment)) => {
                let position = place.vectors.get_or_insert_with(|| VectorPosition::before_rows(0..build.rows()));
                let found = vector_pairs(build, fragment, threshold, position, most, &mut sink);
                Ok((found.map_err(from_join)? as usize, position.is_end()))
            }
            _ => internal_err!("the sides of a similarity join were prepared for different conditions"),
        }
    }
}
