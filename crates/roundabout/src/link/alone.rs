//! A ring of one host, which has no neighbour.

use super::Link;
use crate::{
    alarm::Failure,
    arena::Buffer,
    config::Config,
    error::RoundaboutError,
    host::Opened,
    rotation::{Announcement, Frame, Slot},
};

/// Nothing is sent, and the host's buffers stay its own.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Alone {
    /// The whole ring.
    ///
    /// # Errors
    /// If there is not enough memory for the buffers.
    pub fn open(config: &Config) -> Result<Opened<Self>, RoundaboutError> {
        Ok(Opened { link: Self, own: config.allocate(config.own)?, credits: 0 })
    }
}

impl Link for Alone {
    fn send(&self, _: Slot, _: Buffer, _: Frame, _: usize) {}
    fn retire(&self, _: Slot, _: Buffer, _: Frame) {}
    fn announce(&self, _: Announcement) {}
    fn alarm(&self, _: Failure) {}
    fn close(&self) {}
}
