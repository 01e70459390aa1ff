//! What a host is set up with.

use std::{ops::RangeInclusive, time::Duration};

use crate::{
    arena::{Arena, Buffer},
    error::RoundaboutError,
};

/// Buffers and times. All hosts of a ring have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Most bytes of a fragment: 4 KiB to 1 GiB, 1 MiB by default. The paper's links are saturated from 4 KiB on, and it takes 1 MiB
    /// (section III-C); so do ours.
    pub fragment_bytes: u32,
    /// Buffers for what comes from the predecessor, at least 2, 12 by default: one is received, one joined, one sent, and
    /// the others make up for hosts of changing speed: with half as many, two hosts on two cores waited twice as long.
    pub places: u32,
    /// Buffers for what this host injects, at least 1, 4 by default: one is filled while another is sent.
    pub own: u32,
    /// After this time without a word a neighbour counts as out, 5 s by default.
    pub timeout: Duration,
    /// So long a host waits for its neighbours in the beginning, 60 s by default.
    pub connect_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            fragment_bytes: 1 << 20,
            places: 12,
            own: 4,
            timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(60),
        }
    }
}

/// What [`Config::fragment_bytes`] may be: from 4 KiB to 1 GiB.
pub const FRAGMENT_BYTES: RangeInclusive<u32> = 4 << 10..=1 << 30;

const LEAST_TIMEOUT: Duration = Duration::from_millis(50);
const MOST_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

impl Config {
    /// The same with so many buffers in all, at least 3: of four one is for what this host injects.
    #[must_use]
    pub fn with_buffers(self, buffers: u32) -> Self {
        let own = (buffers / 4).max(1);
        Self { own, places: buffers.saturating_sub(own), ..self }
    }

    /// Buffers of a host in all, 16 by default.
    pub fn buffers(&self) -> u32 {
        self.own.saturating_add(self.places)
    }

    /// The same for hosts that hand buffers over: no place needs one, and an own one is away until it has been everywhere, so that all
    /// are the host's own.
    #[must_use]
    pub fn handing_over(self) -> Self {
        Self { own: self.own + self.places, ..self }
    }

    /// The same, if it can be.
    ///
    /// # Errors
    /// Which option cannot, and what can.
    pub fn checked(self) -> Result<Self, RoundaboutError> {
        let refuse = |option, reason: &str| Err(RoundaboutError::Option { option, reason: reason.to_owned() });
        if !FRAGMENT_BYTES.contains(&self.fragment_bytes) {
            return refuse("fragment bytes", "must be from 4096 (4 KiB) to 1073741824 (1 GiB)");
        }
        if !(2..=1 << 16).contains(&self.places) {
            return refuse("places", "must be from 2 to 65536");
        }
        if !(1..=1 << 16).contains(&self.own) {
            return refuse("own buffers", "must be from 1 to 65536");
        }
        for (option, time) in [("timeout", self.timeout), ("connect timeout", self.connect_timeout)] {
            if !(LEAST_TIMEOUT..=MOST_TIMEOUT).contains(&time) {
                return refuse(option, "must be from 50 ms to a day");
            }
        }
        Ok(self)
    }

    /// So many buffers.
    pub(crate) fn allocate(&self, buffers: u32) -> Result<Vec<Buffer>, RoundaboutError> {
        let bytes = self.fragment_bytes as usize;
        let arena = Arena::private(buffers, bytes);
        Ok(arena.map_err(|source| RoundaboutError::Memory { buffers, bytes, source })?.take_all())
    }

    /// How often a host that has nothing else to say says that it is there.
    pub(crate) fn heartbeat(&self) -> Duration {
        self.timeout / 5
    }
}
