//! The fragments that a host sends.

use std::{
    iter::{Cycle, Take},
    slice, vec,
};

use annulus_join::Fragment;

use crate::{
    CycloError,
    feed::{Feed, Probe},
    keep::{Kept, Place},
};

/// The rows of the probe side that the caller provides while the ring turns.
pub(crate) enum Rows<'a, 'k> {
    /// There are none.
    None,
    /// They are read in this revolution, and kept for the next ones.
    Fed { feed: &'a Feed, probe: &'a Probe<'a>, kept: Option<&'a mut Kept<'k>> },
    /// They were kept in the first revolution.
    Kept(&'a Kept<'k>),
}

/// This host's fragments, in the order in which they are sent.
pub(crate) struct Own<'a, 'k> {
    prepared: Take<Cycle<slice::Iter<'a, Fragment>>>,
    wave: vec::IntoIter<Fragment>,
    rows: Rows<'a, 'k>,
    place: Place,
}

impl<'a, 'k> Own<'a, 'k> {
    /// Returns the prepared fragments, `times` times, then those of `rows`.
    pub(crate) fn new(prepared: &'a [Fragment], times: usize, rows: Rows<'a, 'k>) -> Self {
        let prepared = prepared.iter().cycle().take(times * prepared.len());
        Self { prepared, wave: Vec::new().into_iter(), rows, place: Place::default() }
    }

    /// Waits for the next fragment, and encodes it in `buffer`. Returns its size, or `None` after
    /// the last one.
    ///
    /// # Errors
    /// If the fragment cannot be kept, or one that was kept cannot be read.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, CycloError> {
        if let Some(fragment) = self.prepared.next() {
            return Ok(Some(fragment.encode(buffer)?));
        }
        match &mut self.rows {
            Rows::None => Ok(None),
            Rows::Kept(kept) => kept.read(&mut self.place, buffer),
            Rows::Fed { feed, kept, .. } => loop {
                if let Some(fragment) = self.wave.next() {
                    let bytes = fragment.encode(buffer)?;
                    kept.as_mut().map_or(Ok(()), |kept| kept.push(&buffer[..bytes]))?;
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
