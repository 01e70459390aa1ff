//! One interface to the local joins: they prepare the build side, then join fragments with it.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use annulus_join::{
    BuildSide, CancelToken, Fragment, FragmentFormat, HashConfig, JoinError, KeyPair, Keys, LoopCondition, Loops,
    MOST_PAIRS, MergeBuild, MergeCondition, MergeFragment, MergeJoin, Morsel, NearestPairs, NearestRows, NearestSearch,
    PairSink, Partitions, RequiredPairs, Side, Sides, SimilarityBuild, SimilarityCondition, SimilarityJoin,
    SimilarityPosition,
};
use arrow::{array::RecordBatch, compute::concat_batches, datatypes::SchemaRef};

use crate::{CycloError, KeyForm};

/// The part of the join condition that the local join evaluates. A filter may drop some of its
/// pairs.
#[derive(Clone, Debug)]
pub enum Condition {
    /// Equal keys, found by hash.
    Hash {
        /// The key columns of the build side.
        build: Vec<usize>,
        /// The key columns of the probe side, of the same number and types.
        probe: Vec<usize>,
        /// Whether null keys match null keys.
        nulls_equal: bool,
        /// The number of partitions of both sides, the same on all hosts.
        partitions: Partitions,
    },
    /// Equal keys, or keys within a band, found by sorting both sides.
    Merge(Box<MergeCondition>),
    /// Texts or vectors that are similar, found by an index of the build side.
    Similar(Box<SimilarityCondition>),
    /// The rows of the probe side that are nearest to each row of the build side. The pairs are output
    /// when all fragments have arrived.
    Nearest(Arc<dyn NearestSearch>),
    /// All pairs of rows: this condition decides, if there is one. Its left side is the build side.
    Any(Option<Arc<dyn LoopCondition>>),
}

/// The schemas of both sides.
#[derive(Clone, Copy)]
pub(crate) struct Schemas<'a> {
    pub(crate) build: &'a SchemaRef,
    pub(crate) probe: &'a SchemaRef,
}

/// A local join with its prepared build side.
pub(crate) enum LocalJoin {
    Hash(BuildSide),
    Merge(MergeJoin, MergeBuild),
    Similar(SimilarityJoin, SimilarityBuild),
    Nearest(Box<dyn NearestRows>),
    Loops(RecordBatch),
}

/// A fragment, split for the threads that join it.
pub(crate) enum FragmentParts {
    Hash(Vec<Morsel>),
    Merge(Box<MergeFragment>, u32),
    /// Parts of this many rows.
    Rows(u32),
    /// The parts of the build side, which search fragments that have arrived.
    Arrived,
}

/// The number of rows of a fragment that a thread merges at a time.
const MERGE_ROWS: u32 = 1 << 14;
/// The number of parts of a fragment per thread if every row takes long.
const LOOPS_PARTS: usize = 8;
/// The largest number of fragments whose rows are sorted together.
const SORTED_FRAGMENTS: usize = 64;

impl Condition {
    /// Prepares a part of the build side.
    pub(crate) fn prepare_build(
        &self,
        schemas: Schemas<'_>,
        batches: Vec<RecordBatch>,
        threads: usize,
    ) -> Result<LocalJoin, JoinError> {
        Ok(match self {
            Self::Hash { build, probe, nulls_equal, partitions } => {
                let (keys, _) = keys(schemas, (build, probe), *nulls_equal)?;
                let config = HashConfig::new(*partitions).with_threads(threads);
                LocalJoin::Hash(BuildSide::prepare(keys, batches, &config)?)
            }
            Self::Merge(condition) => {
                let join = MergeJoin::try_new(condition, schemas.build, schemas.probe)?;
                let build = join.prepare_build(batches, threads)?;
                LocalJoin::Merge(join, build)
            }
            Self::Similar(condition) => {
                let join = SimilarityJoin::try_new(condition, schemas.build, schemas.probe)?;
                let build = join.prepare_build(concat_batches(schemas.build, &batches)?, threads)?;
                LocalJoin::Similar(join, build)
            }
            Self::Nearest(search) => {
                LocalJoin::Nearest(search.of_rows(concat_batches(schemas.build, &batches)?, threads)?)
            }
            Self::Any(_) => LocalJoin::Loops(concat_batches(schemas.build, &batches)?),
        })
    }

    /// Returns the format of all fragments.
    pub(crate) fn format(&self, schemas: Schemas<'_>) -> Result<Arc<FragmentFormat>, JoinError> {
        Ok(Arc::new(match self {
            Self::Hash { build, probe, nulls_equal, partitions } => {
                let (_, keys) = keys(schemas, (build, probe), *nulls_equal)?;
                FragmentFormat::new(keys, *partitions)?
            }
            Self::Merge(condition) => MergeJoin::try_new(condition, schemas.build, schemas.probe)?.format()?,
            Self::Similar(_) | Self::Nearest(_) | Self::Any(_) => FragmentFormat::keyless(schemas.probe)?,
        }))
    }

    /// Prepares this host's rows of the probe side.
    pub(crate) fn prepare_probe(
        &self,
        schemas: Schemas<'_>,
        format: &Arc<FragmentFormat>,
        batches: Vec<RecordBatch>,
        threads: usize,
        fragment_bytes: usize,
    ) -> Result<Vec<Fragment>, JoinError> {
        let mut fragments = Vec::new();
        match self {
            Self::Hash { .. } => return Fragment::prepare(format, batches, threads, fragment_bytes),
            Self::Merge(condition) => {
                let join = MergeJoin::try_new(condition, schemas.build, schemas.probe)?;
                let most = fragment_bytes.saturating_mul(SORTED_FRAGMENTS);
                for batch in join.prepare_probe(batches, most, threads)? {
                    fragments.extend(join.fragments(format, &batch, threads, fragment_bytes)?);
                }
            }
            Self::Similar(_) | Self::Nearest(_) | Self::Any(_) => {
                for batch in batches {
                    fragments.extend(Fragment::in_order(format, &batch, threads, fragment_bytes)?);
                }
            }
        }
        Ok(fragments)
    }
}

impl Condition {
    /// Returns the equal keys of both sides, if there are any: a row whose keys equal those of no
    /// row of the other side has no partner.
    pub(crate) fn equal_keys(&self, schemas: Schemas<'_>) -> Result<Option<(Keys, Keys)>, JoinError> {
        let (build, probe, nulls_equal): (Vec<_>, Vec<_>, _) = match self {
            Self::Hash { build, probe, nulls_equal, .. } => (build.clone(), probe.clone(), *nulls_equal),
            Self::Merge(merge) if !merge.equal.is_empty() => {
                let MergeCondition { equal, nulls_equal, .. } = merge.as_ref();
                (equal.iter().map(|key| key.build).collect(), equal.iter().map(|key| key.probe).collect(), *nulls_equal)
            }
            _ => return Ok(None),
        };
        keys(schemas, (&build, &probe), nulls_equal).map(Some)
    }
}

impl Condition {
    /// Returns the form in which a merge join would sort and compare the equal keys. `None` if
    /// there are none, or a merge join does not know their types.
    pub(crate) fn key_form(&self, schemas: Schemas<'_>) -> Result<Option<KeyForm>, JoinError> {
        if self.equal_keys(schemas)?.is_none() {
            return Ok(None);
        }
        let merge = match self {
            Self::Hash { build, probe, nulls_equal, .. } => {
                let equal = build.iter().zip(probe).map(|(&build, &probe)| KeyPair { build, probe }).collect();
                &MergeCondition { equal, nulls_equal: *nulls_equal, ..MergeCondition::default() }
            }
            Self::Merge(merge) => merge,
            Self::Similar(_) | Self::Nearest(_) | Self::Any(_) => return Ok(None),
        };
        let form = |join: MergeJoin| if join.compares_bytes() { KeyForm::Bytes } else { KeyForm::Numbers };
        Ok(MergeJoin::try_new(merge, schemas.build, schemas.probe).ok().map(form))
    }
}

/// Returns the key columns of both sides, checked to be comparable.
fn keys(
    schemas: Schemas<'_>,
    (build, probe): (&[usize], &[usize]),
    nulls_equal: bool,
) -> Result<(Keys, Keys), JoinError> {
    let build = Keys::new(schemas.build, build, nulls_equal)?;
    let probe = Keys::new(schemas.probe, probe, nulls_equal)?;
    build.check(&probe)?;
    Ok((build, probe))
}

impl LocalJoin {
    /// Returns all rows of the build side, in the order by which pairs refer to them.
    pub(crate) fn batch(&self) -> &RecordBatch {
        match self {
            Self::Hash(build) => build.batch(),
            Self::Merge(_, build) => build.batch(),
            Self::Similar(_, build) => build.batch(),
            Self::Nearest(rows) => rows.build(),
            Self::Loops(batch) => batch,
        }
    }

    /// Returns the memory of the prepared build side in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Hash(build) => build.memory_bytes(),
            Self::Merge(_, build) => build.memory_bytes(),
            Self::Similar(_, build) => build.memory_bytes(),
            Self::Nearest(rows) => rows.memory_bytes(),
            Self::Loops(batch) => batch.get_array_memory_size(),
        }
    }

    /// Returns whether it keeps columns of the fragments.
    pub(crate) fn keeps_fragments(&self) -> bool {
        matches!(self, Self::Nearest(_))
    }

    /// Searches the last rows of fragments on this number of threads, and passes the pairs on that depend on all
    /// fragments.
    pub(crate) fn complete(
        &self,
        threads: usize,
        cancel: &CancelToken,
        emit: &mut impl FnMut(&NearestPairs) -> Result<(), JoinError>,
    ) -> Result<(), CycloError> {
        let Self::Nearest(rows) = self else { return Ok(()) };
        let (parts, next) = (rows.complete()?, AtomicUsize::new(0));
        let search = || {
            // Only the number counts.
            while let Some(part) = Some(next.fetch_add(1, Relaxed)).filter(|&part| part < parts) {
                rows.search(part, cancel)?;
            }
            Ok::<_, JoinError>(())
        };
        thread::scope(|scope| {
            let start = |_| thread::Builder::new().spawn_scoped(scope, search).map_err(CycloError::Threads);
            let others: Vec<_> = (1..threads).map(start).collect::<Result<_, _>>()?;
            search()?;
            let mut others = others.into_iter();
            others.try_for_each(|other| Ok::<_, CycloError>(other.join().map_err(|_| CycloError::Panicked)??))
        })?;
        while let Some(pairs) = rows.next_pairs()? {
            cancel.check()?;
            emit(&pairs)?;
        }
        Ok(())
    }

    /// Splits a fragment for the threads. Also returns the number of parts.
    pub(crate) fn split(&self, fragment: &Fragment, threads: usize) -> Result<(FragmentParts, usize), JoinError> {
        let rows = fragment.batch().num_rows();
        let parts = |step: u32| (rows as u32).div_ceil(step) as usize;
        Ok(match self {
            Self::Hash(_) => {
                let morsels = fragment.morsels(threads);
                let parts = morsels.len();
                (FragmentParts::Hash(morsels), parts)
            }
            Self::Merge(join, _) => {
                (FragmentParts::Merge(Box::new(join.arrived(fragment)?), MERGE_ROWS), parts(MERGE_ROWS))
            }
            // Parts of equal texts share work.
            Self::Similar(..) => {
                let step = rows.div_ceil(threads).max(1) as u32;
                (FragmentParts::Rows(step), parts(step))
            }
            Self::Nearest(nearest) => (FragmentParts::Arrived, nearest.add(fragment.batch())?),
            Self::Loops(..) => {
                let step = rows.div_ceil(threads * LOOPS_PARTS).max(1) as u32;
                (FragmentParts::Rows(step), parts(step))
            }
        })
    }

    /// Joins one part of a fragment, on the condition for which both sides were prepared. Returns the
    /// number of pairs compared.
    pub(crate) fn probe(
        &self,
        condition: &Condition,
        (fragment, ready): (&Fragment, &FragmentParts),
        part: usize,
        (wanted, cancel): (RequiredPairs, &CancelToken),
        sink: &mut impl PairSink,
    ) -> Result<u64, JoinError> {
        let rows = |step: u32| -> Range<u32> {
            let start = part as u32 * step;
            start..(fragment.batch().num_rows() as u32).min(start.saturating_add(step))
        };
        match (self, ready) {
            (Self::Hash(build), FragmentParts::Hash(morsels)) => build.probe(fragment, &morsels[part], sink),
            (Self::Merge(join, build), FragmentParts::Merge(fragment, step)) => {
                join.probe(build, fragment, rows(*step), wanted, sink)
            }
            (Self::Similar(join, build), FragmentParts::Rows(step)) => {
                let rows = rows(*step);
                let probe = join.prepare_probe(&fragment.batch().slice(rows.start as usize, rows.len()))?;
                let mut sink = OffsetSink { first: rows.start, sink, rows: Vec::new() };
                let (mut position, mut found) = (SimilarityPosition::default(), 0);
                while !position.is_end(build) {
                    sink.check()?;
                    found += join.probe_some(build, &probe, &mut position, wanted, MOST_PAIRS as u64, &mut sink)?;
                }
                Ok(found)
            }
            (Self::Nearest(nearest), FragmentParts::Arrived) => nearest.search(part, cancel).map(|()| 0),
            (Self::Loops(build), FragmentParts::Rows(step)) => {
                // The rows may have been prepared for another join by pairs, with its own condition.
                let Condition::Any(condition) = condition else {
                    return Err(JoinError::Fragment { what: "it was prepared for another join" });
                };
                let rows = rows(*step);
                let probe = fragment.batch().slice(rows.start as usize, rows.len());
                let loops = Loops::new(condition.as_deref(), Sides { left: build, right: &probe }, wanted)?;
                loops.with_first_probe_row(rows.start).all(sink)
            }
            _ => Err(JoinError::Fragment { what: "it was prepared for another join" }),
        }
    }
}

/// Passes the pairs of some rows of a fragment on, of which `first` is the first.
struct OffsetSink<'a, S> {
    first: u32,
    sink: &'a mut S,
    rows: Vec<u32>,
}

impl<S: PairSink> PairSink for OffsetSink<'_, S> {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        self.rows.clear();
        self.rows.extend(probe.iter().map(|row| row + self.first));
        self.sink.pairs(build, &self.rows)
    }

    fn is_done(&self, side: Side, row: u32) -> bool {
        // The left side is the build side.
        self.sink.is_done(side, if side == Side::Right { row + self.first } else { row })
    }

    fn check(&self) -> Result<(), JoinError> {
        self.sink.check()
    }
}
