//! Parameters of the choice of joins around a ring.

use std::any::Any;

use datafusion::{
    common::config_err,
    config::{ConfigEntry, ConfigExtension, ExtensionOptions},
    error::Result,
};

/// Parameters of the choice of joins around a ring, for tests and measurements. It is an extension of a session
/// without options in SQL; users have `annulus.cyclo_join`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingJoinOptions {
    /// The most bytes of a side that the cost model expects the engine to send to all workers.
    pub broadcast_limit: usize,
}

impl Default for RingJoinOptions {
    fn default() -> Self {
        Self { broadcast_limit: 64 << 20 }
    }
}

impl ConfigExtension for RingJoinOptions {
    const PREFIX: &'static str = "annulus_ring_joins";
}

impl ExtensionOptions for RingJoinOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(*self)
    }

    fn set(&mut self, key: &str, _: &str) -> Result<()> {
        config_err!("annulus: unknown option '{key}'")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}
