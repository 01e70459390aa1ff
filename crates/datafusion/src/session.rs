//! The one line that installs Annulus.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;

use crate::{config::AnnulusConfig, rule::RingRepartition};

/// Installs Annulus in a DataFusion session.
pub trait SessionStateBuilderExt {
    /// Adds the options (`annulus.*`) and the rule that puts the exchange in the place of hash repartitions.
    ///
    /// Call it after `with_config` and `with_physical_optimizer_rules`, which replace what it edits. What is installed
    /// already, with its options, stays as it is, so an existing session may be rebuilt with it.
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

impl RingRepartition {
    /// Puts this rule into a list of rules: before the final check of the plan, and so after the rules that may not see
    /// a plan change behind them. A list that has one already is left as it is.
    pub fn install(self, rules: &mut Rules) {
        if rules.iter().any(|rule| rule.name() == Self::NAME) {
            return;
        }
        let check = rules.iter().rposition(|rule| rule.name() == "SanityCheckPlan");
        rules.insert(check.unwrap_or(rules.len()), Arc::new(self));
    }
}

/// A session's physical optimizer rules, in the order in which they run.
pub type Rules = Vec<Arc<dyn datafusion::physical_optimizer::PhysicalOptimizerRule + Send + Sync>>;
