//! The one line that installs Annulus.

use datafusion::execution::SessionStateBuilder;

use crate::{
    config::AnnulusConfig,
    rule::{BandJoin, KeyFilters, RingRepartition, SharedJoins},
};

/// Installs Annulus in a DataFusion session.
///
/// ```
/// use annulus_datafusion::SessionStateBuilderExt;
/// use datafusion::{
///     execution::SessionStateBuilder,
///     prelude::{SessionConfig, SessionContext},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let config = SessionConfig::new().with_information_schema(true);
/// let builder = SessionStateBuilder::new_with_default_features().with_config(config);
/// let state = builder.with_annulus().build();
/// let context = SessionContext::new_with_state(state);
/// context.sql("SET annulus.strategy = 'stock'").await?;
/// let shown = context.sql("SHOW annulus.strategy").await?.to_string().await?;
/// assert!(shown.contains("stock"));
/// # Ok(())
/// # }
/// ```
pub trait SessionStateBuilderExt {
    /// Adds the options (`annulus.*`) and the rules that replace hash repartitions by the exchange,
    /// and hash joins and joins on bands by those of `annulus-join`.
    ///
    /// Call it after `with_config` and `with_physical_optimizer_rules`, which replace what it
    /// edits. It keeps options and rules that are installed already, so an existing session can be
    /// rebuilt with it.
    #[must_use]
    fn with_annulus(self) -> Self;
}

impl SessionStateBuilderExt for SessionStateBuilder {
    fn with_annulus(mut self) -> Self {
        let options = self.config().get_or_insert_default().options_mut();
        if options.extensions.get::<AnnulusConfig>().is_none() {
            options.extensions.insert(AnnulusConfig::default());
        }
        let rules = &mut self.physical_optimizers().get_or_insert_default().rules;
        BandJoin::default().install(rules);
        SharedJoins::default().install(rules);
        KeyFilters::install(rules);
        RingRepartition::default().install(rules);
        self
    }
}
