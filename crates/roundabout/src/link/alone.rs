//! A ring of one host, which has no neighbour.

use super::Link;
use crate::{
    alarm::Failure,
    arena::Buffer,
    rotation::{Announcement, Frame, Slot},
};

/// Nothing is sent, and the host's buffers stay its own.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Link for Alone {
    fn send(&self, _: Slot, _: Buffer, _: Frame, _: usize) {}
    fn retire(&self, _: Slot, _: Buffer, _: Frame) {}
    fn announce(&self, _: Announcement) {}
    fn alarm(&self, _: Failure) {}
    fn close(&self) {}
}
