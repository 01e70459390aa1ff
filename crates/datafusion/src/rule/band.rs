//! The choice of the joins that run by sorting, or by the nested loops of Annulus.

mod advice;

use std::{any::Any, fmt, sync::Arc};

use datafusion::{
    common::{
        ScalarValue, Statistics,
        stats::Precision,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        joins::{HashJoinExec, NestedLoopJoinExec, utils::JoinFilter},
        statistics::StatisticsContext,
    },
};

use crate::{
    choice::profile::{self, JoinCosts, Known},
    config::{AnnulusConfig, Joins},
    join::{BandJoinExec, LoopJoinExec, SimilarityJoinExec, as_nested_loops, is_similarity},
};

/// The pairs of rows up to which DataFusion's operator compares all of them in less time than it
/// takes to start tasks, and to sort or to gather rows.
const FEW_PAIRS: usize = 1 << 14;

/// The default number of candidate pairs per row above which sorting both sides of a join on equal
/// keys is cheaper. To filter a pair takes about a tenth of the time in which a row is read, sorted and
/// merged.
const PAIRS_OF_A_ROW: f64 = 16.0;

/// How many times as long a hash join must take by the profile: the rows that were measured are
/// narrow.
const MARGIN: f64 = 1.5;

/// Replaces `NestedLoopJoinExec` by [`SimilarityJoinExec`] where its condition bounds the likeness of texts or of
/// vectors, by [`BandJoinExec`] where it has a band or an inequality, else by [`LoopJoinExec`]. Replaces
/// `HashJoinExec` by the first where its filter bounds the likeness of texts, and by the second where it has a
/// band, if its equal keys are few.
///
/// Nested-loops joins of unbounded inputs stay DataFusion's own, and with `annulus.joins = auto`
/// those of few rows. A hash join is replaced with `annulus.keyed_bands = auto` if statistics show
/// that most of its work is the filter: they must bound the number of different keys, by a count or
/// by the least and the greatest one. A coordinator sends its choice to the workers, which have no
/// statistics. The machine's profile, if there is one, decides which part of the work dominates.
/// [`SessionStateBuilderExt`](crate::SessionStateBuilderExt) installs the rule in a session.
#[derive(Debug, Default)]
pub struct BandJoin {
    defaults: AnnulusConfig,
}

impl BandJoin {
    /// The rule's name in `EXPLAIN VERBOSE`.
    pub const NAME: &'static str = "BandJoin";

    /// Creates a rule that uses `defaults` in sessions without `annulus.*` options.
    pub fn new(defaults: AnnulusConfig) -> Self {
        Self { defaults }
    }

    /// Inserts this rule into a list, after the rule that chooses which side is the left one. So it
    /// runs before the rules that collect the stock operator's left side in one partition, and that
    /// compute its keys below the join. A list that already has the rule stays unchanged.
    pub fn install(self, rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) {
        if rules.iter().any(|rule| rule.name() == Self::NAME) {
            return;
        }
        let selection = rules.iter().rposition(|rule| rule.name() == "join_selection");
        rules.insert(selection.map_or(0, |place| place + 1), Arc::new(self));
    }

    /// Replaces the joins in a plan of which `joins` run on Annulus.
    pub(super) fn replace(
        plan: Arc<dyn ExecutionPlan>,
        options: &AnnulusConfig,
        joins: Joins,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.transform_up(|node| {
            let Some((stock, why)) = candidate(&node, options, joins)? else { return Ok(Transformed::no(node)) };
            if let Some(ours) = SimilarityJoinExec::try_new(&stock, why.as_str())? {
                return Ok(Transformed::yes(Arc::new(ours)));
            }
            if let Some(ours) = BandJoinExec::replace(Arc::clone(&stock), &why)? {
                return Ok(Transformed::yes(ours));
            }
            if !node.is::<NestedLoopJoinExec>() {
                return Ok(Transformed::no(node));
            }
            Ok(match LoopJoinExec::try_new(&stock, why)? {
                Some(ours) => Transformed::yes(Arc::new(ours)),
                None => Transformed::no(node),
            })
        })?;
        Ok(replaced.data)
    }
}

impl PhysicalOptimizerRule for BandJoin {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = config.extensions.get::<AnnulusConfig>().unwrap_or(&self.defaults);
        if super::is_shipped(config) && options.joins != Joins::Never {
            return advice::attach(plan, |stock| why_not_hashed(stock, options));
        }
        match super::joins(config, &self.defaults) {
            Joins::Never => Ok(plan),
            joins => Self::replace(plan, options, joins),
        }
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns a join that is worth replacing, if ours can run it, and why.
fn candidate(
    node: &Arc<dyn ExecutionPlan>,
    options: &AnnulusConfig,
    joins: Joins,
) -> Result<Option<(Arc<NestedLoopJoinExec>, String)>> {
    if let Some(stock) = node.downcast_ref::<HashJoinExec>() {
        let Some(why) = why_not_hashed(stock, options)? else { return Ok(None) };
        return Ok(as_nested_loops(stock)?.map(|stock| (Arc::new(stock), why)));
    }
    if !node.is::<NestedLoopJoinExec>() {
        return Ok(None);
    }
    let Ok(stock) = (Arc::clone(node) as Arc<dyn Any + Send + Sync>).downcast::<NestedLoopJoinExec>() else {
        return Ok(None);
    };
    let why = why_not_looped(&stock, joins);
    Ok(why.map(|why| (stock, why)))
}

fn known(input: &Arc<dyn ExecutionPlan>) -> Arc<Statistics> {
    super::statistics(&StatisticsContext::new(), input)
}

/// Returns why a nested-loops join is worth replacing, or `None` if it is not.
fn why_not_looped(stock: &NestedLoopJoinExec, joins: Joins) -> Option<String> {
    if joins == Joins::Always {
        return Some("annulus.joins".to_owned());
    }
    // An estimate may be far too low.
    match (known(stock.left()).num_rows, known(stock.right()).num_rows) {
        (Precision::Exact(left), Precision::Exact(right)) => {
            (left.saturating_mul(right) > FEW_PAIRS).then(|| format!("{left} rows by {right}"))
        }
        _ => Some("the exact number of rows is unknown".to_owned()),
    }
}

/// Returns why a hash join with a filter is worth sorting, or `None` if it is not.
///
/// # Errors
/// If the file that `annulus.profile` names cannot be read as a profile.
fn why_not_hashed(stock: &HashJoinExec, options: &AnnulusConfig) -> Result<Option<String>> {
    let Some(filter) = stock.filter() else { return Ok(None) };
    if is_similarity(filter) {
        return Ok(why_not_filtered(stock, filter));
    }
    match options.keyed_bands {
        Joins::Never => return Ok(None),
        Joins::Always => return Ok(Some("annulus.keyed_bands".to_owned())),
        Joins::Auto => {}
    }
    if let Some(why) = advice::attached_to(filter) {
        return Ok(Some(why.to_owned()));
    }
    let Some(work) = Work::from_plan(stock).filter(|work| work.pairs > FEW_PAIRS as f64) else { return Ok(None) };
    let Known::Profile(profile) = profile::known(&options.profile)? else { return Ok(work.by_rule()) };
    Ok(profile.joins.map_or_else(|| work.by_rule(), |costs| work.by_costs(costs)))
}

/// Returns why a hash join that compares the texts of all pairs with equal keys is worth an index of the texts, or
/// `None` if it has few pairs.
fn why_not_filtered(stock: &HashJoinExec, filter: &JoinFilter) -> Option<String> {
    if let Some(why) = advice::attached_to(filter) {
        return Some(why.to_owned());
    }
    let unknown = || Some("the number of pairs with equal keys is unknown".to_owned());
    Work::from_plan(stock).map_or_else(unknown, |work| work.by_rule())
}

/// What a hash join with a filter has to do.
struct Work {
    left_rows: usize,
    right_rows: usize,
    /// The most that the different keys can be.
    keys: f64,
    rows: f64,
    /// The pairs with equal keys, if all keys are on both sides and equally frequent.
    pairs: f64,
}

impl Work {
    /// Returns it, if statistics tell the rows and bound the keys.
    fn from_plan(stock: &HashJoinExec) -> Option<Self> {
        let (left, right) = (known(stock.left()), known(stock.right()));
        let (left_rows, right_rows) = (*left.num_rows.get_value()?, *right.num_rows.get_value()?);
        let keys = stock.on().iter().map(|(of_left, of_right)| {
            let most = [most_values(&left, of_left), most_values(&right, of_right)];
            most.into_iter().flatten().reduce(f64::min)
        });
        let keys: f64 = keys.product::<Option<f64>>()?.min(left_rows.min(right_rows) as f64).max(1.0);
        let (rows, pairs) = ((left_rows + right_rows) as f64, left_rows as f64 * right_rows as f64 / keys);
        Some(Self { left_rows, right_rows, keys, rows, pairs })
    }

    /// Returns why to sort, if there are many pairs for each row.
    fn by_rule(&self) -> Option<String> {
        (self.pairs > PAIRS_OF_A_ROW * self.rows).then(|| self.to_string())
    }

    /// Returns why to sort, if that costs clearly less by what was measured.
    fn by_costs(&self, costs: JoinCosts) -> Option<String> {
        let (hashed, sorted) = (self.pairs * costs.pair_ns / 1e6, self.rows * costs.row_ns / 1e6);
        let shown = || format!("{self}; measured: {sorted:.1} ms to sort, {hashed:.1} ms to compare the pairs");
        (sorted * MARGIN < hashed).then(shown)
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows by {} have at most {} keys", self.left_rows, self.right_rows, self.keys)
    }
}

/// Returns a bound of the number of different values of a key.
fn most_values(input: &Statistics, key: &Arc<dyn PhysicalExpr>) -> Option<f64> {
    let column = input.column_statistics.get(key.downcast_ref::<Column>()?.index())?;
    if let Some(&distinct) = column.distinct_count.get_value() {
        return Some(distinct as f64);
    }
    let number = |value: &Precision<ScalarValue>| value.get_value().and_then(whole_number);
    Some((number(&column.max_value)? - number(&column.min_value)?).max(0) as f64 + 1.0)
}

/// Returns a value of a type of which each has a next one.
fn whole_number(value: &ScalarValue) -> Option<i128> {
    Some(match value {
        ScalarValue::Boolean(Some(value)) => (*value).into(),
        ScalarValue::Int8(Some(value)) => (*value).into(),
        ScalarValue::Int16(Some(value)) => (*value).into(),
        ScalarValue::Int32(Some(value)) | ScalarValue::Date32(Some(value)) => (*value).into(),
        ScalarValue::Int64(Some(value)) => (*value).into(),
        ScalarValue::UInt8(Some(value)) => (*value).into(),
        ScalarValue::UInt16(Some(value)) => (*value).into(),
        ScalarValue::UInt32(Some(value)) => (*value).into(),
        ScalarValue::UInt64(Some(value)) => (*value).into(),
        _ => return None,
    })
}
