//! The one line that installs Annulus.

use std::sync::Arc;

use datafusion::{execution::SessionStateBuilder, optimizer::OptimizerRule};

use crate::{
    compare::Comparisons,
    config::AnnulusConfig,
    folders, functions, logical,
    parquet_files::ParquetFiles,
    rule::{
        BandJoin, CommonSubplans, CompareByValue, EncodedScans, FastDecimals, FirstRows, KeyFilters, PartitionedTables,
        RingRepartition, RunAggregates, SharedJoins, SoundBounds, UnorderedGroupingSets, WholeMergeSides,
        YieldingCrossJoins,
    },
    sinks::install_first,
    sql,
    text_files::TextFiles,
    whole_files::WholeFiles,
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
    /// Adds the options (`annulus.*`), the rules that replace hash repartitions by the exchange,
    /// and hash joins and joins on bands by those of `annulus-join`, and first steps of groupings
    /// by those that merge runs, and windows of which the first rows are used, the rules for
    /// [partitioned tables](crate::register_dataset),
    /// [one comparison](crate::Comparisons) for each pair of types, and those
    /// that keep DataFusion from believing statistics of Parquet files that prove nothing: they leave NaN
    /// out, and do not tell 0.0 from -0.0. Lists of `IN` get both zeros if they have one, as
    /// `=` takes one for the other. Timestamps that Parquet files store in 96 bits are microseconds,
    /// unless `datafusion.execution.parquet.coerce_int96` is set.
    /// The folders of `COPY ... PARTITIONED BY` are named as those of a dataset, and the folder of nulls
    /// is null in tables of files.
    /// `COPY` writes `""` for empty texts to CSV, and nulls and all floats to JSON.
    /// `ASOF JOIN` works in parentheses and in subqueries of `FROM`. Anywhere else, it works with
    /// [`annulus_datafusion::sql`](crate::sql), as `JOIN ... NEAREST` does.
    /// Sorts below merge joins have no limit of those above. Grouping sets of constant or sorted keys have no
    /// group twice.
    /// Logical rules mend `NOT IN` and other comparisons with subqueries, of which DataFusion forgets nulls.
    ///
    /// Call it after `with_config`, `with_query_planner`, `with_relation_planners`, `with_analyzer_rules` and
    /// `with_physical_optimizer_rules`, which
    /// replace what it edits. It keeps options and rules that are installed already, so an existing
    /// session can be rebuilt with it.
    #[must_use]
    fn with_annulus(self) -> Self;
}

impl SessionStateBuilderExt for SessionStateBuilder {
    fn with_annulus(mut self) -> Self {
        let options = self.config().get_or_insert_default().options_mut();
        if options.extensions.get::<AnnulusConfig>().is_none() {
            options.extensions.insert(AnnulusConfig::default());
        }
        // The usual nanoseconds hold 584 years only, and other values wrap.
        options.execution.parquet.coerce_int96.get_or_insert_with(|| "us".to_owned());
        sql::install_planners(&mut self);
        functions::install_functions(&mut self);
        logical::install(self.optimizer().get_or_insert_default());
        Comparisons::install(&mut self.analyzer().get_or_insert_default().rules);
        let rules = &mut self.physical_optimizers().get_or_insert_default().rules;
        BandJoin::default().install(rules);
        SharedJoins::default().install(rules);
        KeyFilters::install(rules);
        CommonSubplans.install(rules);
        PartitionedTables::install(rules);
        RingRepartition::default().install(rules);
        RunAggregates::default().install(rules);
        FirstRows.install(rules);
        UnorderedGroupingSets.install(rules);
        SoundBounds::install(rules);
        WholeMergeSides.install(rules);
        install_first(WholeFiles, rules);
        folders::install(&mut self);
        let rules = &mut self.physical_optimizers().get_or_insert_default().rules;
        install_first(TextFiles, rules);
        install_first(ParquetFiles, rules);
        EncodedScans.install(rules);
        FastDecimals.install(rules);
        YieldingCrossJoins.install(rules);
        let has_rule = |rule: &Arc<dyn OptimizerRule + Send + Sync>| rule.name() == CompareByValue.name();
        let is_installed = self.optimizer().as_ref().is_some_and(|optimizer| optimizer.rules.iter().any(has_rule))
            || self.optimizer_rules().iter().flatten().any(has_rule);
        if is_installed { self } else { self.with_optimizer_rule(Arc::new(CompareByValue)) }
    }
}
