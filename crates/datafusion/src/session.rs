//! The one line that installs Annulus.

use datafusion::execution::SessionStateBuilder;

use crate::{config::AnnulusConfig, rule::RingRepartition};

/// Installs Annulus in a DataFusion session.
pub trait SessionStateBuilderExt {
    /// Adds the options (`annulus.*`) and the rule that replaces hash repartitions by the exchange.
    ///
    /// Call it after `with_config` and `with_physical_optimizer_rules`, which replace what it
    /// edits. Options and a rule that are installed already are kept, so an existing session
    /// may be rebuilt with it.
    #[must_use]
    fn with_annulus(self) -> Self;
}

impl SessionStateBuilderExt for SessionStateBuilder {
    fn with_annulus(mut self) -> Self {
        let options = self.config().get_or_insert_default().options_mut();
        if options.extensions.get::<AnnulusConfig>().is_none() {
            options.extensions.insert(AnnulusConfig::default());
        }
        RingRepartition::default().install(&mut self.physical_optimizers().get_or_insert_default().rules);
        self
    }
}
