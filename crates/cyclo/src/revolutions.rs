//! All revolutions of a join on one host: one for each part of the build side.

use std::{num::NonZeroUsize, time::Instant};

use annulus_join::{CancelToken, JoinError, KeyFilterKind, Keys};
use annulus_roundabout::Host;
use arrow::array::RecordBatch;
use parking_lot::Mutex;

use crate::{
    CycloError, Give, JoinSpec, Keep, Probe, Share, Supply, Turn,
    feed::{Feed, rows_of},
    keep::Kept,
    key_filter::ProbeFilter,
    own::Rows,
    sift::Sifted,
    turn::{Around, Endings, GiveUp, Met, Part},
};

impl Share {
    /// Runs one revolution for each part.
    pub(crate) fn revolve(
        self,
        host: &mut Host,
        Supply { parts, mut next, probe, keep }: Supply<'_>,
        feed: &Feed,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<Turn, CycloError> {
        let Self { around, first, setup, memory } = self;
        let give_up = GiveUp::unless_done(host);
        let mut turn =
            Turn { setup, memory, prepared: around.times as u64 * rows_of(&around.fragments), ..Turn::default() };
        let filter = FilterKeys::of(&around.spec, parts)?;
        let mut fed = Fed::new(&around.spec, filter.is_some(), parts, &keep)?;
        let (mut first, mut endings) = (Some(first), Endings::default());
        for number in 0..parts.get() {
            // The previous part has been freed.
            let part = match first.take() {
                Some(first) => first,
                None => turn.prepare_part(&around, || next(number))?,
            };
            let filter =
                filter.as_ref().map(|keys| turn.make_filter(keys, &part, host, &around.spec.cancel)).transpose()?;
            endings.is_last = number + 1 == parts.get();
            feed.begin();
            let met = match probe {
                None => around.turn(host, &part, &mut endings, Rows::None, emit)?,
                Some(probe) => {
                    let at = Revolution { number, part: &part, endings: &mut endings };
                    let met = fed.turn(&around, host, at, (feed, probe, filter.as_ref()), emit)?;
                    turn.reading += met.revolution.waiting_fill;
                    met
                }
            };
            turn.dropped += filter.map_or(0, |filter| filter.dropped());
            turn.add(met);
        }
        give_up.done();
        let waves = feed.waves();
        turn.prepared += waves.rows;
        turn.memory.fragments = turn.memory.fragments.max(waves.largest);
        if let Some(kept) = fed.kept() {
            (turn.memory.kept, turn.kept_on_disk) = kept;
        }
        Ok(turn)
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
    fn of(spec: &JoinSpec, parts: NonZeroUsize) -> Result<Option<Self>, CycloError> {
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

/// The rows that the caller feeds, kept for further revolutions if there are any.
enum Fed<'k> {
    /// As fragments.
    Prepared(Option<Kept<'k>>),
    /// As they were given, because each revolution has a filter of its own.
    Sifted(Mutex<Sifted<'k>>),
}

impl<'k> Fed<'k> {
    fn new(spec: &JoinSpec, sifted: bool, parts: NonZeroUsize, keep: &'k Keep) -> Result<Self, JoinError> {
        let kept = (parts > NonZeroUsize::MIN).then(|| Kept::new(keep));
        Ok(if sifted {
            Self::Sifted(Mutex::new(Sifted::new(kept, spec.schemas().probe, spec.fragment_bytes)?))
        } else {
            Self::Prepared(kept)
        })
    }

    /// Runs one revolution.
    fn turn(
        &mut self,
        around: &Around,
        host: &mut Host,
        Revolution { number, part, endings }: Revolution<'_>,
        (feed, probe, filter): (&Feed, &Probe<'_>, Option<&ProbeFilter<'_>>),
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<Met, CycloError> {
        let is_first = number == 0;
        match (self, filter) {
            (Self::Sifted(sifted), Some(filter)) => {
                let sifted = &*sifted;
                let sift = |give: &mut Give<'_>| {
                    let mut sifted = sifted.lock();
                    if is_first { sifted.first(filter, probe, give) } else { sifted.again(filter, give) }
                };
                around.turn(host, part, endings, Rows::Fed { feed, probe: &sift, kept: None }, emit)
            }
            (Self::Prepared(kept), _) if is_first => {
                around.turn(host, part, endings, Rows::Fed { feed, probe, kept: kept.as_mut() }, emit)
            }
            (Self::Prepared(Some(kept)), _) => around.turn(host, part, endings, Rows::Kept(kept), emit),
            _ => around.turn(host, part, endings, Rows::None, emit),
        }
    }

    /// Returns the bytes that are kept in memory and on disk.
    fn kept(&mut self) -> Option<(usize, u64)> {
        let bytes = |kept: &Kept<'_>| (kept.memory_bytes(), kept.file_bytes());
        match self {
            Self::Prepared(kept) => kept.as_ref().map(bytes),
            Self::Sifted(sifted) => sifted.get_mut().kept().map(bytes),
        }
    }
}

impl Turn {
    /// Prepares a further part, whose rows `next` returns.
    fn prepare_part(
        &mut self,
        around: &Around,
        next: impl FnOnce() -> Result<Vec<RecordBatch>, JoinError>,
    ) -> Result<Part, CycloError> {
        let start = Instant::now();
        let batches = next()?;
        self.reading += start.elapsed();
        let start = Instant::now();
        let part = around.spec.part(&around.output, batches)?;
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

    fn add(&mut self, met: Met) {
        self.revolution += met.revolution;
        self.probed += met.probed;
        self.compared += met.compared;
    }
}
