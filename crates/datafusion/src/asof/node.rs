//! The logical node.

use std::{cmp::Ordering, collections::HashSet, fmt, sync::Arc};

use annulus_join::{AsOfComparison, Side, Sides};
use datafusion::{
    common::{Column, DFSchema, DFSchemaRef, JoinType, plan_err},
    error::Result,
    logical_expr::{
        BinaryExpr, Expr, LogicalPlan, Operator, UserDefinedLogicalNodeCore, build_join_schema,
        utils::split_conjunction_owned,
    },
};

use crate::join_nodes::{columns_by_side, without_moved};

/// A join of each row of `left` with the nearest row of `right`, or with nulls if there is none. An
/// [inner](Self::inner) one leaves out the rows that have none. The output has the columns of both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AsOfJoin {
    pub(crate) left: Arc<LogicalPlan>,
    pub(crate) right: Arc<LogicalPlan>,
    /// The comparison of times, then the bounds of their distance.
    match_condition: Vec<Expr>,
    /// Comparisons by `=`.
    on: Vec<Expr>,
    /// Whether rows of `left` without a partner are in the output.
    keeps_left: bool,
    schema: DFSchemaRef,
}

/// The condition by sides, as the operator has it.
pub(crate) struct Condition {
    pub(crate) on: Vec<Sides<Expr>>,
    pub(crate) times: Sides<Expr>,
    pub(crate) comparison: AsOfComparison,
    pub(crate) bounds: Vec<Expr>,
}

impl AsOfJoin {
    /// Returns the join of two plans.
    ///
    /// `match_condition` is a comparison `>=`, `>`, `<=` or `<` of an expression over the columns of `left`
    /// with one over those of `right`. Behind it, connected by `AND`, may come bounds: conditions on the
    /// columns of the comparison that the nearest row must satisfy, or the row of `left` has none. `on` has
    /// comparisons by `=` of the two sides, connected by `AND`.
    ///
    /// # Errors
    /// If a condition has another form.
    pub fn try_new(left: LogicalPlan, right: LogicalPlan, match_condition: Expr, on: Vec<Expr>) -> Result<Self> {
        let match_condition = split_conjunction_owned(match_condition);
        let on = on.into_iter().flat_map(split_conjunction_owned).collect();
        let join = Self::from_parts(left, right, match_condition, on, true)?;
        if let Some(volatile) = join.expressions().iter().find(|expr| expr.is_volatile()) {
            return plan_err!(
                "the conditions of an as-of join must not change their value with each call, as '{volatile}' does"
            );
        }
        join.condition()?;
        Ok(join)
    }

    fn from_parts(
        left: LogicalPlan,
        right: LogicalPlan,
        match_condition: Vec<Expr>,
        on: Vec<Expr>,
        keeps_left: bool,
    ) -> Result<Self> {
        let kind = if keeps_left { JoinType::Left } else { JoinType::Inner };
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &kind)?);
        Ok(Self { left: Arc::new(left), right: Arc::new(right), match_condition, on, keeps_left, schema })
    }

    /// Returns the join without the rows of the left side that have no partner.
    ///
    /// # Errors
    /// If both sides have columns of the same name.
    pub fn inner(self) -> Result<Self> {
        let (left, right) = (Arc::unwrap_or_clone(self.left), Arc::unwrap_or_clone(self.right));
        Self::from_parts(left, right, self.match_condition, self.on, false)
    }

    /// Returns whether rows of the left side without a partner are in the output.
    pub fn keeps_left(&self) -> bool {
        self.keeps_left
    }

    /// Returns the same join of other inputs, which have the columns that it needs.
    pub(crate) fn with_inputs(&self, left: LogicalPlan, right: LogicalPlan) -> Result<Self> {
        Self::from_parts(left, right, self.match_condition.clone(), self.on.clone(), self.keeps_left)
    }

    /// Returns the condition by sides.
    ///
    /// # Errors
    /// If it has another form than [`try_new`](Self::try_new) takes.
    pub(crate) fn condition(&self) -> Result<Condition> {
        let (comparison, times) = match self.match_condition.first() {
            Some(Expr::BinaryExpr(BinaryExpr { left, op, right })) => {
                match (self.sides(left, right), comparison(*op)) {
                    (Some((times, false)), Some(comparison)) => (comparison, times),
                    (Some((times, true)), Some(comparison)) => (turned(comparison), times),
                    _ => return self.wrong_match(),
                }
            }
            _ => return self.wrong_match(),
        };
        let compared: HashSet<&Column> = times.iter().flat_map(|time| time.column_refs()).collect();
        let bounds = self.match_condition[1..].to_vec();
        if let Some(bound) = bounds.iter().find(|bound| !bound.column_refs().is_subset(&compared)) {
            return plan_err!(
                "behind AND, the match condition of an as-of join bounds the distance of the columns that it compares, \
                 and '{bound}' has others: name equal columns with ON, and filter the result"
            );
        }
        let on = self.on.iter().map(|expr| match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => self.sides(left, right),
            _ => None,
        });
        let Some(on) = on.map(|pair| pair.map(|(pair, _)| pair.map(Expr::clone))).collect() else {
            return plan_err!(
                "ON of an as-of join takes comparisons by '=' of both tables, connected by AND: filter the result, or \
                 a table in a subquery"
            );
        };
        Ok(Condition { on, times: times.map(Expr::clone), comparison, bounds })
    }

    fn wrong_match<T>(&self) -> Result<T> {
        let written: Vec<_> = self.match_condition.iter().take(1).map(ToString::to_string).collect();
        plan_err!(
            "the match condition of an as-of join begins with a comparison by '>=', '>', '<=' or '<' of both tables, \
             such as trades.time >= quotes.time, and not with '{}'",
            written.concat()
        )
    }

    /// Returns two expressions by the side whose columns they have, and whether the first one is the right
    /// side's. `None` if they are not of one side each.
    fn sides<'a>(&self, first: &'a Expr, second: &'a Expr) -> Option<(Sides<&'a Expr>, bool)> {
        match (self.side(first)?, self.side(second)?) {
            (Side::Left, Side::Right) => Some((Sides { left: first, right: second }, false)),
            (Side::Right, Side::Left) => Some((Sides { left: second, right: first }, true)),
            _ => None,
        }
    }

    fn side(&self, expr: &Expr) -> Option<Side> {
        let columns = expr.column_refs();
        let is_of = |schema: &DFSchema| columns.iter().all(|column| schema.has_column(column));
        match (columns.is_empty() || expr.is_volatile(), is_of(self.left.schema()), is_of(self.right.schema())) {
            (false, true, false) => Some(Side::Left),
            (false, false, true) => Some(Side::Right),
            _ => None,
        }
    }

    /// Returns the columns of the right side that equal one of the left side in all pairs.
    pub(crate) fn equal_columns(&self) -> Vec<Sides<&Column>> {
        let pair = |expr| match expr {
            &Expr::BinaryExpr(BinaryExpr { ref left, op: Operator::Eq, ref right }) => match self.sides(left, right)? {
                (Sides { left: Expr::Column(left), right: Expr::Column(right) }, _) => Some(Sides { left, right }),
                _ => None,
            },
            _ => None,
        };
        self.on.iter().filter_map(pair).collect()
    }
}

pub(super) fn comparison(operator: Operator) -> Option<AsOfComparison> {
    match operator {
        Operator::GtEq => Some(AsOfComparison::AtOrAfter),
        Operator::Gt => Some(AsOfComparison::After),
        Operator::LtEq => Some(AsOfComparison::AtOrBefore),
        Operator::Lt => Some(AsOfComparison::Before),
        _ => None,
    }
}

/// Returns the comparison with its sides exchanged.
fn turned(comparison: AsOfComparison) -> AsOfComparison {
    match comparison {
        AsOfComparison::AtOrAfter => AsOfComparison::AtOrBefore,
        AsOfComparison::After => AsOfComparison::Before,
        AsOfComparison::AtOrBefore => AsOfComparison::AtOrAfter,
        AsOfComparison::Before => AsOfComparison::After,
    }
}

impl PartialOrd for AsOfJoin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let key = |join: &Self| (join.match_condition.clone(), join.on.clone(), join.keeps_left);
        let order = key(self).partial_cmp(&key(other))?;
        if order.is_ne() || self == other { Some(order) } else { None }
    }
}

impl UserDefinedLogicalNodeCore for AsOfJoin {
    fn name(&self) -> &str {
        "AsOfJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.match_condition.iter().chain(&self.on).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let list = |exprs: &[Expr], separator| exprs.iter().map(Expr::to_string).collect::<Vec<_>>().join(separator);
        let kind = if self.keeps_left { "Left" } else { "Inner" };
        write!(
            f,
            "AsOfJoin: type={kind}, match={}, on=[{}]",
            list(&self.match_condition, " AND "),
            list(&self.on, ", ")
        )
    }

    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Ok([left, right]) = <[LogicalPlan; 2]>::try_from(inputs) else {
            return plan_err!("an AsOfJoin has two inputs");
        };
        let right = without_moved(&left, right, &self.right);
        let on = exprs.split_off(self.match_condition.len().min(exprs.len()));
        // Rules that turn a comparison around give it the name that it had.
        let unnamed = |exprs: Vec<Expr>| exprs.into_iter().map(Expr::unalias).collect();
        Self::from_parts(left, right, unnamed(exprs), unnamed(on), self.keeps_left)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // DataFusion adds those of the expressions.
        Some(columns_by_side(output_columns, self.left.schema().fields().len()))
    }
}
