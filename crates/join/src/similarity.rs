//! The join of rows whose texts or vectors are alike.

use arrow::{
    array::{ArrayRef, BooleanArray, RecordBatch},
    compute::nullif,
    datatypes::SchemaRef,
};

use crate::{
    error::JoinError,
    key::Keys,
    merge::KeyPair,
    nearest::{VectorBlock, VectorMetric, VectorPosition, VectorThreshold, vector_pairs},
    pairs::RequiredPairs,
    sides::Sides,
    sink::PairSink,
    texts::{TextBuild, TextCondition, TextFragment, TextJoin, TextPosition},
};

/// Which values are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Likeness {
    /// Texts that satisfy a condition.
    Texts(TextCondition),
    /// Vectors whose results satisfy a threshold.
    Vectors(VectorMetric, VectorThreshold),
}

/// The condition of a [`SimilarityJoin`].
#[derive(Clone, Debug, PartialEq)]
pub struct SimilarityCondition {
    /// Which values are alike.
    pub likeness: Likeness,
    /// The column of the texts or vectors of each side. The left side is the build side.
    pub values: Sides<usize>,
    /// Columns that are equal in all rows of interest. Few pairs of texts differ in them; pairs of
    /// vectors may. A row where one of them is null has no pairs of texts.
    pub equal: Vec<KeyPair>,
}

/// A join of rows with similar texts or vectors: a [`TextJoin`] or [`vector_pairs`]. Threads may share it.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_join::{
///     EditDistance, JoinError, Likeness, PairSink, RequiredPairs, Sides, SimilarityCondition, SimilarityJoin,
///     SimilarityPosition, TextCondition,
/// };
/// use arrow::array::{ArrayRef, RecordBatch, StringArray};
///
/// struct Pairs(Vec<(u32, u32)>);
///
/// impl PairSink for Pairs {
///     fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
///         Ok(self.0.extend(build.iter().copied().zip(probe.iter().copied())))
///     }
/// }
///
/// let text = |texts: Vec<&str>| Arc::new(StringArray::from(texts)) as ArrayRef;
/// let rows = |texts: Vec<&str>| RecordBatch::try_from_iter([("text", text(texts))]);
/// let (left, right) = (rows(vec!["kitten", "dog"])?, rows(vec!["mitten", "dig"])?);
/// let condition = SimilarityCondition {
///     likeness: Likeness::Texts(TextCondition::Distance(EditDistance { most: 1 })),
///     values: Sides { left: 0, right: 0 },
///     equal: Vec::new(),
/// };
/// let join = SimilarityJoin::try_new(&condition, &left.schema(), &right.schema())?;
/// let (build, fragment) = (join.prepare_build(left, 1)?, join.prepare_probe(&right)?);
/// let (mut position, mut pairs) = (SimilarityPosition::default(), Pairs(Vec::new()));
/// while !position.is_end(&build) {
///     join.probe_some(&build, &fragment, &mut position, RequiredPairs::All, 8192, &mut pairs)?;
/// }
/// pairs.0.sort();
/// assert_eq!(pairs.0, [(0, 0), (1, 1)]);
/// # Ok::<(), JoinError>(())
/// ```
#[derive(Debug)]
pub struct SimilarityJoin {
    likeness: Likeness,
    values: Sides<usize>,
    /// The equal columns, if the likeness uses them.
    keys: Option<Sides<Keys>>,
}

/// Rows of the build side, with an index of their texts, or with their vectors.
#[derive(Debug)]
pub struct SimilarityBuild {
    batch: RecordBatch,
    values: BuildValues,
}

#[derive(Debug)]
enum BuildValues {
    Texts(TextBuild),
    Vectors(VectorBlock),
}

/// The texts or vectors of rows of the probe side. It shares their memory.
#[derive(Debug)]
pub struct SimilarityFragment(FragmentValues);

#[derive(Debug)]
enum FragmentValues {
    Texts(TextFragment),
    Vectors(VectorBlock),
}

/// The pair at which a [`SimilarityJoin`] goes on.
#[derive(Debug, Default)]
pub struct SimilarityPosition {
    texts: TextPosition,
    vectors: Option<VectorPosition>,
}

impl SimilarityJoin {
    /// Returns the join of sides that have these schemas.
    ///
    /// # Errors
    /// If columns do not exist, or the equal ones cannot be compared.
    pub fn try_new(condition: &SimilarityCondition, build: &SchemaRef, probe: &SchemaRef) -> Result<Self, JoinError> {
        let SimilarityCondition { likeness, values, equal } = condition;
        build.project(&[values.left])?;
        probe.project(&[values.right])?;
        let keys = if equal.is_empty() || matches!(likeness, Likeness::Vectors(..)) {
            None
        } else {
            let (of_build, of_probe): (Vec<_>, Vec<_>) = equal.iter().map(|key| (key.build, key.probe)).unzip();
            let (left, right) = (Keys::new(build, &of_build, false)?, Keys::new(probe, &of_probe, false)?);
            left.check(&right)?;
            Some(Sides { left, right })
        };
        Ok(Self { likeness: *likeness, values: *values, keys })
    }

    /// Prepares rows of the build side, on up to `threads` threads. Costs are those of
    /// [`TextJoin::prepare_build`] and [`VectorBlock::try_new`].
    ///
    /// # Errors
    /// If the values have another type, or the rows are too many.
    pub fn prepare_build(&self, batch: RecordBatch, threads: usize) -> Result<SimilarityBuild, JoinError> {
        let values = batch.column(self.values.left);
        let values = match self.likeness {
            Likeness::Texts(condition) => {
                let keys = self.keys.as_ref().map(|keys| &keys.left);
                let (texts, hashes) = texts(keys, &batch, values)?;
                BuildValues::Texts(TextJoin::new(condition).prepare_build(&texts, hashes.as_deref(), threads)?)
            }
            Likeness::Vectors(metric, _) => BuildValues::Vectors(VectorBlock::try_new(values, metric)?),
        };
        Ok(SimilarityBuild { batch, values })
    }

    /// Prepares rows of the probe side.
    ///
    /// # Errors
    /// As [`prepare_build`](Self::prepare_build).
    pub fn prepare_probe(&self, batch: &RecordBatch) -> Result<SimilarityFragment, JoinError> {
        let values = batch.column(self.values.right);
        Ok(SimilarityFragment(match self.likeness {
            Likeness::Texts(condition) => {
                let keys = self.keys.as_ref().map(|keys| &keys.right);
                let (texts, hashes) = texts(keys, batch, values)?;
                FragmentValues::Texts(TextJoin::new(condition).prepare_probe(&texts, hashes.as_deref())?)
            }
            Likeness::Vectors(metric, _) => FragmentValues::Vectors(VectorBlock::try_new(values, metric)?),
        }))
    }

    /// Passes the required pairs from a position on to `sink`, and returns their number, which is at most
    /// `most`. Moves the position behind them. Equal columns may differ in these pairs.
    ///
    /// Returns after some ten milliseconds with texts, even if it has found fewer pairs: all pairs have
    /// been found when [`SimilarityPosition::is_end`].
    ///
    /// # Errors
    /// [`JoinError::Fragment`] if the sides were prepared for another condition,
    /// [`JoinError::VectorLengths`] if vectors have different lengths, and the sink's errors.
    pub fn probe_some(
        &self,
        build: &SimilarityBuild,
        fragment: &SimilarityFragment,
        position: &mut SimilarityPosition,
        required: RequiredPairs,
        most: u64,
        sink: &mut impl PairSink,
    ) -> Result<u64, JoinError> {
        match (self.likeness, &build.values, &fragment.0) {
            (Likeness::Texts(condition), BuildValues::Texts(build), FragmentValues::Texts(fragment)) => {
                TextJoin::new(condition).probe_some(build, fragment, &mut position.texts, required, most, sink)
            }
            (Likeness::Vectors(_, threshold), BuildValues::Vectors(build), FragmentValues::Vectors(fragment)) => {
                let start = || VectorPosition::before_rows(0..build.rows());
                vector_pairs(build, fragment, threshold, position.vectors.get_or_insert_with(start), most, sink)
            }
            _ => Err(JoinError::Fragment { what: "it was prepared for another join" }),
        }
    }
}

impl SimilarityBuild {
    /// Returns the rows.
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// Returns the memory of the rows and of what was prepared, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let values = match &self.values {
            BuildValues::Texts(texts) => texts.memory_bytes(),
            BuildValues::Vectors(vectors) => vectors.memory_bytes(),
        };
        self.batch.get_array_memory_size() + values
    }
}

impl SimilarityPosition {
    /// Returns whether all pairs with a build side are found.
    pub fn is_end(&self, build: &SimilarityBuild) -> bool {
        match build.values {
            BuildValues::Texts(_) => self.texts.is_end(),
            BuildValues::Vectors(_) => self.vectors.as_ref().is_some_and(VectorPosition::is_end),
        }
    }
}

/// Returns the texts of rows, and the hashes of their keys if there are such. A text whose row has a null key is
/// null: it matches nothing.
fn texts(
    keys: Option<&Keys>,
    batch: &RecordBatch,
    texts: &ArrayRef,
) -> Result<(ArrayRef, Option<Vec<u64>>), JoinError> {
    let Some(keys) = keys else { return Ok((ArrayRef::clone(texts), None)) };
    let (hashes, nulls) = keys.hash_rows(batch)?;
    let texts = match nulls {
        Some(valid) => nullif(texts, &BooleanArray::new(!valid.inner(), None))?,
        None => ArrayRef::clone(texts),
    };
    Ok((texts, Some(hashes)))
}
