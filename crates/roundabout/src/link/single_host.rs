//! The link of the only host of a ring.

use super::{Link, OpenLink};
use crate::{
    alarm::Failure,
    arena::Buffer,
    buffer_cache::BufferCache,
    config::RingConfig,
    error::RoundaboutError,
    rotation::{Announcement, Frame, Slot},
};

/// A link that sends nothing, and leaves all buffers to the host.
#[derive(Clone, Copy, Debug)]
pub struct SingleHostLink;

impl SingleHostLink {
    /// Opens the link.
    ///
    /// # Errors
    /// If memory is short.
    pub fn open(config: &RingConfig, cache: &BufferCache) -> Result<OpenLink<Self>, RoundaboutError> {
        Ok(OpenLink { link: Self, own: cache.allocate(config, config.own)?, credits: 0 })
    }
}

impl Link for SingleHostLink {
    fn send(&self, _: Slot, _: Buffer, _: Frame, _: usize) {}
    fn retire(&self, _: Slot, _: Buffer, _: Frame) {}
    fn announce(&self, _: Announcement) {}
    fn alarm(&self, _: Failure) {}
    fn close(&self) {}
}
