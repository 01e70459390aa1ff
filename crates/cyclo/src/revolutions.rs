//! All revolutions of a join on one host: one for each part of the build side.

use std::{num::NonZeroUsize, time::Instant};

use annulus_join::{CancelToken, JoinError, KeyFilterKind, Keys};
use annulus_roundabout::Host;
use arrow::array::RecordBatch;
use parking_lot::Mutex;

use crate::{
    CycloError, JoinSpec, JoinStats, RowSink, RowSource, Share, StoreConfig, Supply,
    feed::{Feed, rows_of},
    filtered_rows::FilteredRows,
    fragment_store::FragmentStore,
    key_filter::ProbeFilter,
    own_fragments::ProbeRows,
    revolution::{Endings, Part, RevolutionStats, RingJoin, StopGuard},
};

impl Share {
    /// Runs one revolution for each part.
    pub(crate) fn run_revolutions(
        self,
        host: &mut Host,
        Supply { parts, mut next, probe, store_config }: Supply<'_>,
        feed: &Feed,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<JoinStats, CycloError> {
        let Self { ring_join, first, setup, memory } = self;
        let guard = StopGuard::new(host);
        let mut stats = JoinStats {
            setup,
            memory,
            prepared: ring_join.times as u64 * rows_of(&ring_join.fragments),
            ..JoinStats::default()
        };
        let filter = FilterKeys::from_spec(&ring_join.spec, parts)?;
        let mut supply = ProbeSupply::new(&ring_join.spec, filter.is_some(), parts, &store_config)?;
        let (mut first, mut endings) = (Some(first), Endings::default());
        for number in 0..parts.get() {
            // The previous part has been freed.
            let part = match first.take() {
                Some(first) => first,
                None => stats.prepare_part(&ring_join, || next(number))?,
            };
            let filter =
                filter.as_ref().map(|keys| stats.make_filter(keys, &part, host, &ring_join.spec.cancel)).transpose()?;
            endings.is_last = number + 1 == parts.get();
            feed.begin();
            let revolution = match probe {
                None => ring_join.revolve(host, &part, &mut endings, ProbeRows::None, emit)?,
                Some(probe) => {
                    let revolution = Revolution { number, part: &part, endings: &mut endings };
                    let source = FilteredSource { feed, probe, filter: filter.as_ref() };
                    let revolution = supply.revolve(&ring_join, host, revolution, source, emit)?;
                    stats.reading += revolution.revolution.waiting_fill;
                    revolution
                }
            };
            stats.dropped += filter.map_or(0, |filter| filter.dropped());
            stats.add(revolution);
        }
        guard.done();
        let waves = feed.waves();
        stats.prepared += waves.rows;
        stats.memory.fragments = stats.memory.fragments.max(waves.largest);
        if let Some(store) = supply.store() {
            (stats.memory.kept, stats.kept_on_disk) = store;
        }
        Ok(stats)
    }
}

/// The key filters of a join.
struct FilterKeys {
    kind: KeyFilterKind,
    build: Keys,
    probe: Keys,
}

impl FilterKeys {
    /// Returns the keys if there are to be filters.
    ///
    /// # Errors
    /// If filters would drop rows of the result.
    fn from_spec(spec: &JoinSpec, parts: NonZeroUsize) -> Result<Option<Self>, CycloError> {
        let Some(kind) = spec.key_filter else { return Ok(None) };
        let keys = spec.filter_keys(parts)?.map(|(build, probe)| Self { kind, build, probe });
        let reason = if spec.can_filter_keys(NonZeroUsize::MIN)? {
            "the join outputs rows of the probe side alone, and the build side has several parts"
        } else {
            "the join has no equal keys, or outputs rows without a match"
        };
        keys.map(Some).ok_or(CycloError::KeyFilter { reason })
    }
}

/// One of the revolutions.
struct Revolution<'a> {
    number: usize,
    part: &'a Part,
    endings: &'a mut Endings,
}

/// The source of the rows of one revolution, and the filter that they pass, if there is one.
struct FilteredSource<'a> {
    feed: &'a Feed,
    probe: &'a RowSource<'a>,
    filter: Option<&'a ProbeFilter<'a>>,
}

/// The rows that the caller supplies, stored for further revolutions if there are any.
enum ProbeSupply<'k> {
    /// As fragments.
    Fragments(Option<FragmentStore<'k>>),
    /// As the caller supplied them, because each revolution has a filter of its own.
    Filtered(Mutex<FilteredRows<'k>>),
}

impl<'k> ProbeSupply<'k> {
    fn new(
        spec: &JoinSpec,
        filtered: bool,
        parts: NonZeroUsize,
        store_config: &'k StoreConfig,
    ) -> Result<Self, JoinError> {
        let store = (parts > NonZeroUsize::MIN).then(|| FragmentStore::new(store_config));
        Ok(if filtered {
            Self::Filtered(Mutex::new(FilteredRows::new(store, spec.schemas().probe, spec.fragment_bytes)?))
        } else {
            Self::Fragments(store)
        })
    }

    /// Runs one revolution.
    fn revolve(
        &mut self,
        ring_join: &RingJoin,
        host: &mut Host,
        Revolution { number, part, endings }: Revolution<'_>,
        FilteredSource { feed, probe, filter }: FilteredSource<'_>,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<RevolutionStats, CycloError> {
        let is_first = number == 0;
        match (self, filter) {
            (Self::Filtered(filtered), Some(filter)) => {
                let filtered = &*filtered;
                let pass = |give: &mut RowSink<'_>| {
                    let mut filtered = filtered.lock();
                    if is_first { filtered.first(filter, probe, give) } else { filtered.again(filter, give) }
                };
                ring_join.revolve(host, part, endings, ProbeRows::Supplied { feed, probe: &pass, store: None }, emit)
            }
            (Self::Fragments(store), _) if is_first => {
                ring_join.revolve(host, part, endings, ProbeRows::Supplied { feed, probe, store: store.as_mut() }, emit)
            }
            (Self::Fragments(Some(store)), _) => ring_join.revolve(host, part, endings, ProbeRows::Stored(store), emit),
            _ => ring_join.revolve(host, part, endings, ProbeRows::None, emit),
        }
    }

    /// Returns the bytes that are stored in memory and on disk.
    fn store(&mut self) -> Option<(usize, u64)> {
        let bytes = |store: &FragmentStore<'_>| (store.memory_bytes(), store.file_bytes());
        match self {
            Self::Fragments(store) => store.as_ref().map(bytes),
            Self::Filtered(filtered) => filtered.get_mut().store().map(bytes),
        }
    }
}

impl JoinStats {
    /// Prepares a further part, whose rows `next` returns.
    fn prepare_part(
        &mut self,
        ring_join: &RingJoin,
        next: impl FnOnce() -> Result<Vec<RecordBatch>, JoinError>,
    ) -> Result<Part, CycloError> {
        let start = Instant::now();
        let batches = next()?;
        self.reading += start.elapsed();
        let start = Instant::now();
        let part = ring_join.prepare_part(batches)?;
        self.setup += start.elapsed();
        self.memory.build = self.memory.build.max(part.local.memory_bytes());
        Ok(part)
    }

    /// Makes the filter of a part's keys, together with the other hosts.
    fn make_filter<'k>(
        &mut self,
        keys: &'k FilterKeys,
        part: &Part,
        host: &mut Host,
        cancel: &CancelToken,
    ) -> Result<ProbeFilter<'k>, CycloError> {
        let start = Instant::now();
        let FilterKeys { kind, build, probe } = keys;
        let (filter, bytes) = ProbeFilter::make(*kind, (build, probe), part.local.batch(), host, cancel)?;
        self.setup += start.elapsed();
        self.filter_bytes += bytes;
        self.memory.filter = self.memory.filter.max(filter.bytes());
        Ok(filter)
    }

    fn add(&mut self, revolution: RevolutionStats) {
        self.revolution += revolution.revolution;
        self.probed += revolution.probed;
        self.compared += revolution.compared;
    }
}
