//! The link of the only host of a ring.

use super::Link;
use crate::{
    alarm::Failure,
    arena::Buffer,
    config::RingConfig,
    error::RoundaboutError,
    host::Opened,
    kept::KeptBuffers,
    rotation::{Announcement, Frame, Slot},
};

/// A link that sends nothing, and leaves all buffers to the host.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Alone {
    /// Opens the link.
    ///
    /// # Errors
    /// If memory is short.
    pub fn open(config: &RingConfig, kept: &KeptBuffers) -> Result<Opened<Self>, RoundaboutError> {
        Ok(Opened { link: Self, own: config.allocate(config.own, kept)?, credits: 0 })
    }
}

impl Link for Alone {
    fn send(&self, _: Slot, _: Buffer, _: Frame, _: usize) {}
    fn retire(&self, _: Slot, _: Buffer, _: Frame) {}
    fn announce(&self, _: Announcement) {}
    fn alarm(&self, _: Failure) {}
    fn close(&self) {}
}
