//! The join of texts that are alike: within an edit distance, or similar as sets of tokens.
//!
//! ```text
//! texts of the build side --prepare_build--> TextBuild ----------------+
//! texts of some rows of the probe side --prepare_probe--> TextFragment --probe_some--> pairs
//! ```
//! Equal texts of a side are compared once. An index of the build side returns candidates that
//! include all matches, and each candidate is compared exactly.

mod alphabet;
mod column;
mod condition;
mod distance;
mod edit;
mod entries;
mod index;
mod probe;
mod scheme;
mod scratch;
mod segments;
mod sets;
mod tokens;

use arrow::array::Array;

pub use condition::{EditDistance, SetMeasure, TextCondition, TokenSimilarity, Tokens};
pub use probe::{TextPosition, TextStatistics};

use crate::{error::JoinError, pairs::RequiredPairs, sink::PairSink};
use column::Column;
use edit::EditTexts;
use entries::Entries;
use probe::Probe;
use sets::SetTexts;

/// A join of texts that are alike. Threads may share it.
///
/// Columns are of type Utf8, LargeUtf8 or Utf8View; the sides may have different ones. Beside alike
/// texts, a join may have equal keys: the caller gives a 64-bit hash of each row's keys, and only
/// rows with equal hashes are paired. Keys with equal hashes may still differ, so the caller has to
/// compare them, and to ask for [`RequiredPairs::All`] if it does. A row that has a null key and
/// cannot match must be null as a text.
///
/// ```
/// use annulus_join::{EditDistance, JoinError, PairSink, RequiredPairs, TextCondition, TextJoin, TextPosition};
/// use arrow::array::StringArray;
///
/// struct Pairs(Vec<(u32, u32)>);
///
/// impl PairSink for Pairs {
///     fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
///         Ok(self.0.extend(build.iter().copied().zip(probe.iter().copied())))
///     }
/// }
///
/// let join = TextJoin::new(TextCondition::Distance(EditDistance { most: 2 }));
/// let build = join.prepare_build(&StringArray::from(vec!["kitten", "mitten", "dog"]), None, 2)?;
/// let fragment = join.prepare_probe(&StringArray::from(vec!["sitting", "smitten", "dig"]), None)?;
/// let (mut position, mut pairs) = (TextPosition::default(), Pairs(Vec::new()));
/// while !position.is_end() {
///     join.probe_some(&build, &fragment, &mut position, RequiredPairs::All, 8192, &mut pairs)?;
/// }
/// pairs.0.sort();
/// assert_eq!(pairs.0, [(0, 1), (1, 1), (2, 2)]);
/// # Ok::<(), JoinError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TextJoin {
    condition: TextCondition,
}

/// The texts of the build side, with an index. It does not refer to the arrays they came from.
#[derive(Debug)]
pub struct TextBuild {
    entries: Entries,
    texts: Texts,
}

/// Texts of the probe side. It shares the memory of the array they came from, and takes up to 20
/// bytes a row beside that.
#[derive(Debug)]
pub struct TextFragment {
    column: Column,
    entries: Entries,
}

#[derive(Debug)]
enum Texts {
    Edit(Box<EditTexts>),
    Sets(Box<SetTexts>),
}

impl TextJoin {
    /// Returns a join of texts that satisfy a condition.
    pub fn new(condition: TextCondition) -> Self {
        Self { condition }
    }

    /// Indexes the texts of the build side, on up to `threads` threads. `keys` has a hash of the equal
    /// keys of each row. Rows of the build side are numbered as in `texts`.
    ///
    /// O(rows * log rows). Sorting takes 48 bytes for each row meanwhile, and the index then 16 bytes
    /// for each of its postings.
    ///
    /// # Errors
    /// [`JoinError::TextsUnsupported`] if these are not texts, [`JoinError::KeyHashes`] if there are
    /// not as many hashes as rows, and [`JoinError::TooManyRows`] for more than 4294967295 rows.
    pub fn prepare_build(
        &self,
        texts: &dyn Array,
        keys: Option<&[u64]>,
        threads: usize,
    ) -> Result<TextBuild, JoinError> {
        let column = Column::new(texts)?;
        match self.condition {
            TextCondition::Distance(EditDistance { most }) => {
                let entries = Entries::new(&column, keys, threads, |text| text.chars().count() as u32)?;
                let texts = Texts::Edit(Box::new(EditTexts::new(most, &column, &entries, threads)));
                Ok(TextBuild { entries, texts })
            }
            TextCondition::Similarity(condition) => {
                let mut entries = Entries::new(&column, keys, threads, |_| 0)?;
                let texts = Texts::Sets(Box::new(SetTexts::new(condition, &column, &mut entries, threads)));
                Ok(TextBuild { entries, texts })
            }
        }
    }

    /// Prepares some rows of the probe side, with the hashes of their keys if the build side has such.
    /// Fragments of ten thousand rows or more share the work for equal texts. O(rows * log rows).
    ///
    /// # Errors
    /// As [`prepare_build`](Self::prepare_build).
    pub fn prepare_probe(&self, texts: &dyn Array, keys: Option<&[u64]>) -> Result<TextFragment, JoinError> {
        let column = Column::new(texts)?;
        let entries = Entries::new(&column, keys, 1, |_| 0)?;
        Ok(TextFragment { column, entries })
    }

    /// Passes the required pairs of a fragment from a position on to `sink`, each of them once, and
    /// returns their number, which is at most `most`. Moves the position behind them.
    ///
    /// Returns after some ten milliseconds even if it has found fewer pairs, or none: all pairs have
    /// been found when [`TextPosition::is_end`]. The sink's [`check`](PairSink::check) is called every
    /// few milliseconds. Rows of the probe side that are [done](PairSink::is_done) may be left out.
    ///
    /// # Errors
    /// [`JoinError::Fragment`] if one side has hashes of keys and the other has none, or the first
    /// error of the sink.
    pub fn probe_some(
        &self,
        build: &TextBuild,
        fragment: &TextFragment,
        position: &mut TextPosition,
        required: RequiredPairs,
        most: u64,
        sink: &mut impl PairSink,
    ) -> Result<u64, JoinError> {
        if build.entries.has_keys != fragment.entries.has_keys {
            return Err(JoinError::Fragment { what: "one side has hashes of keys, and the other has none" });
        }
        Probe { build, fragment, required, most }.run(position, sink)
    }
}

impl TextBuild {
    /// Returns the memory in bytes. O(1).
    ///
    /// A distance of 2 among a million random texts of 8 to 20 characters takes 76 bytes a text, and
    /// among a million names of as many characters, whose parts are frequent, 148.
    pub fn memory_bytes(&self) -> usize {
        let texts = match &self.texts {
            Texts::Edit(texts) => texts.memory_bytes(),
            Texts::Sets(texts) => texts.memory_bytes(),
        };
        self.entries.memory_bytes() + texts
    }

    /// Returns the number of distinct texts, or of distinct pairs of hash and text.
    pub fn texts(&self) -> u32 {
        self.entries.len()
    }

    /// Returns the number of postings of the index: of the signatures of all texts.
    pub fn postings(&self) -> usize {
        match &self.texts {
            Texts::Edit(texts) => texts.postings(),
            Texts::Sets(texts) => texts.postings(),
        }
    }
}

impl TextFragment {
    /// Returns the memory beside the texts themselves, in bytes. O(1).
    pub fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes()
    }
}
