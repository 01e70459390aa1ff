//! The fragments that a host sends.

use std::{
    iter::{Cycle, Take},
    slice, vec,
};

use annulus_join::Fragment;

use crate::{
    CycloError,
    feed::{Feed, RowSource},
    fragment_store::{FragmentCursor, FragmentStore},
};

/// The rows of the probe side that the caller supplies during the join.
pub(crate) enum ProbeRows<'a, 'k> {
    /// The caller supplies no rows.
    None,
    /// The rows are read in this revolution, and stored for the next ones.
    Supplied { feed: &'a Feed, probe: &'a RowSource<'a>, store: Option<&'a mut FragmentStore<'k>> },
    /// The rows were stored in the first revolution.
    Stored(&'a FragmentStore<'k>),
}

/// This host's fragments, in the order in which they are sent.
pub(crate) struct OwnFragments<'a, 'k> {
    prepared: Take<Cycle<slice::Iter<'a, Fragment>>>,
    wave: vec::IntoIter<Fragment>,
    rows: ProbeRows<'a, 'k>,
    cursor: FragmentCursor,
}

impl<'a, 'k> OwnFragments<'a, 'k> {
    /// Returns the prepared fragments, `times` times, then those of `rows`.
    pub(crate) fn new(prepared: &'a [Fragment], times: usize, rows: ProbeRows<'a, 'k>) -> Self {
        let prepared = prepared.iter().cycle().take(times * prepared.len());
        Self { prepared, wave: Vec::new().into_iter(), rows, cursor: FragmentCursor::default() }
    }

    /// Waits for the next fragment, and encodes it in `buffer`. Returns its size, or `None` after
    /// the last one.
    ///
    /// # Errors
    /// If a fragment cannot be stored, or a stored one cannot be read.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, CycloError> {
        if let Some(fragment) = self.prepared.next() {
            return Ok(Some(fragment.encode(buffer)?));
        }
        match &mut self.rows {
            ProbeRows::None => Ok(None),
            ProbeRows::Stored(store) => store.read(&mut self.cursor, buffer),
            ProbeRows::Supplied { feed, store, .. } => loop {
                if let Some(fragment) = self.wave.next() {
                    let bytes = fragment.encode(buffer)?;
                    store.as_mut().map_or(Ok(()), |store| store.push(&buffer[..bytes]))?;
                    return Ok(Some(bytes));
                }
                match feed.next_wave()? {
                    Some(wave) => self.wave = wave.into_iter(),
                    None => return Ok(None),
                }
            },
        }
    }
}
