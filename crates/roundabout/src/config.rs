//! The settings of a ring.

use std::{ops::RangeInclusive, time::Duration};

use crate::error::RoundaboutError;

/// The sizes, counts and times of a ring. All hosts must use the same fragment size and timeout.
///
/// ```
/// use annulus_roundabout::RingConfig;
///
/// let config = RingConfig::default().with_fragment_bytes(256 << 10).with_buffers(8);
/// assert_eq!((config.own, config.places), (2, 6));
/// assert!(config.checked().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingConfig {
    /// The largest size of a fragment in bytes: 4 KiB to 1 GiB, 1 MiB by default. The Data
    /// Roundabout paper uses 1 MiB, and its links are saturated from 4 KiB on (section III-C).
    pub fragment_bytes: u32,
    /// The number of buffers for fragments from the predecessor: at least 2, 12 by default. At any
    /// time one is being received, one joined and one sent; the others absorb variations in speed.
    pub places: u32,
    /// The number of buffers for fragments that this host injects: at least 1, 4 by default. One is
    /// filled while another is sent.
    pub own: u32,
    /// The time without a message after which a neighbour counts as failed: 5 s by default.
    pub timeout: Duration,
    /// The time within which the neighbours must be reached at the start: 60 s by default.
    pub connect_timeout: Duration,
}

impl Default for RingConfig {
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

/// The allowed values of [`RingConfig::fragment_bytes`]: from 4 KiB to 1 GiB.
pub const FRAGMENT_BYTES: RangeInclusive<u32> = 4 << 10..=1 << 30;

const LEAST_TIMEOUT: Duration = Duration::from_millis(50);
const MOST_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

impl RingConfig {
    /// Sets the largest size of a [fragment](Self::fragment_bytes).
    #[must_use]
    pub fn with_fragment_bytes(self, fragment_bytes: u32) -> Self {
        Self { fragment_bytes, ..self }
    }

    /// Sets the number of [buffers for received fragments](Self::places).
    #[must_use]
    pub fn with_places(self, places: u32) -> Self {
        Self { places, ..self }
    }

    /// Sets the number of [buffers for own fragments](Self::own).
    #[must_use]
    pub fn with_own(self, own: u32) -> Self {
        Self { own, ..self }
    }

    /// Sets the total number of buffers, at least 3: a quarter of them for own fragments.
    #[must_use]
    pub fn with_buffers(self, buffers: u32) -> Self {
        let own = (buffers / 4).max(1);
        Self { own, places: buffers.saturating_sub(own), ..self }
    }

    /// Sets the time after which a silent neighbour [counts as failed](Self::timeout).
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the time to [reach the neighbours](Self::connect_timeout).
    #[must_use]
    pub fn with_connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// Returns the total number of a host's buffers, 16 by default.
    pub fn buffers(&self) -> u32 {
        self.own.saturating_add(self.places)
    }

    /// Returns the same settings for hosts that hand buffers over. Places then need no memory. An
    /// own buffer is away until its fragment has visited every host, so all buffers are own ones.
    #[must_use]
    pub(crate) fn handing_over(self) -> Self {
        Self { own: self.own + self.places, ..self }
    }

    /// Returns the settings if they are valid.
    ///
    /// # Errors
    /// [`RoundaboutError::Option`] names the first invalid option and its allowed values.
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

    /// Returns the interval at which a host with nothing else to send sends a heartbeat.
    pub(crate) fn heartbeat(&self) -> Duration {
        self.timeout / 5
    }
}
