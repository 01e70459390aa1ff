//! A comparison of a value with those of a subquery, as conditions that look at no null.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        Column, DFSchema, ExprSchema,
        alias::AliasGenerator,
        not_impl_err,
        tree_node::{Transformed, TreeNode},
    },
    error::Result,
    logical_expr::{
        Expr, ExprSchemable, LogicalPlanBuilder, Operator, Subquery, binary_expr, cast,
        expr::{Exists, InSubquery, SetComparison, SetQuantifier},
        lit, not, when,
    },
    scalar::ScalarValue,
};

use super::correlated;

/// `value IN (SELECT ...)`, or `value op ANY (SELECT ...)`, or the negation of one.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    value: Expr,
    op: Operator,
    subquery: Subquery,
    pub(super) negated: bool,
}

/// The reasons for which a comparison is not false, each a condition that is never null.
struct Reasons {
    /// A value of the subquery compares as true.
    true_for: Expr,
    /// A value of the subquery is null. `None` if none can be.
    null_in_list: Option<Expr>,
    /// The compared value is null, and the subquery has a row. `None` if it cannot be.
    null_value: Option<Expr>,
}

impl Comparison {
    /// Returns the comparison that an expression is.
    pub(super) fn of_expr(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Not(inner) => Self::of_expr(inner).map(|inner| Self { negated: !inner.negated, ..inner }),
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => Some(Self {
                value: expr.as_ref().clone(),
                op: Operator::Eq,
                subquery: subquery.clone(),
                negated: *negated,
            }),
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
                let negation = op.negate().filter(|_| matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq))?;
                let (op, negated) = match quantifier {
                    SetQuantifier::Any => (*op, false),
                    SetQuantifier::All => (negation, true),
                };
                Some(Self { value: expr.as_ref().clone(), op, subquery: subquery.clone(), negated })
            }
            _ => None,
        }
    }

    pub(super) fn subquery(&self) -> &Subquery {
        &self.subquery
    }

    /// Returns whether the value can move into the subquery: it has one value, and names no column of
    /// a query further out.
    fn can_move(&self) -> bool {
        let stays = |part: &Expr| {
            Ok(match part {
                Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
                part => matches!(part, Expr::Exists(_) | Expr::InSubquery(_) | Expr::OuterReferenceColumn(..)),
            })
        };
        !self.value.is_volatile() && !self.value.exists(stays).unwrap_or(true)
    }

    /// Returns the comparison with the value of a correlated list that has exactly one row.
    pub(super) fn with_one_row(&self) -> Option<Expr> {
        let is_one = !self.subquery.outer_ref_columns.is_empty() && correlated::is_one_row(&self.subquery.subquery);
        is_one.then(|| {
            let compared = binary_expr(self.value.clone(), self.op, Expr::ScalarSubquery(self.subquery.clone()));
            if self.negated { not(compared) } else { compared }
        })
    }

    /// Checks that the comparison can become `EXISTS`.
    ///
    /// # Errors
    /// If the value cannot move into the subquery, or a condition of the subquery cannot move out.
    pub(super) fn check(&self) -> Result<()> {
        correlated::check(&self.subquery, true)?;
        if self.can_move() {
            return Ok(());
        }
        not_impl_err!(
            "a comparison of a subquery's values with a random value, another subquery, or a column of a query \
             further out: compute the value in a subquery of FROM"
        )
    }

    /// Returns the comparison as `NOT IN` if DataFusion's join for that answers it: one key, and no
    /// other condition.
    pub(super) fn as_not_in(&self) -> Result<Option<Expr>> {
        let is_correlated = !self.subquery.outer_ref_columns.is_empty();
        let is_of_outer = self.value.column_refs().is_empty() || self.value.contains_outer();
        if !self.negated || self.op != Operator::Eq || is_correlated || is_of_outer {
            return Ok(None);
        }
        let (_, field) = self.subquery.subquery.schema().qualified_field(0);
        let Some(plain) = plain_type(field.data_type()) else {
            return Ok(Some(in_subquery(self.value.clone(), self.subquery.clone())));
        };
        // The join takes the nulls of a dictionary's keys for all that there are.
        let plan = self.subquery.subquery.as_ref().clone();
        let values = cast(Expr::from(plan.schema().qualified_field(0)), plain.clone()).alias("value");
        let plan = LogicalPlanBuilder::from(plan).project([values])?.build()?;
        let subquery = Subquery { subquery: Arc::new(plan), ..self.subquery.clone() };
        Ok(Some(in_subquery(cast(self.value.clone(), plain), subquery)))
    }

    /// Returns a condition that is true if and only if the comparison, which is not `negated`, is. It is
    /// false if that is null.
    pub(super) fn condition(&self, schema: &DFSchema, names: &AliasGenerator) -> Result<Expr> {
        let value = in_subquery_of(&self.value, schema)?;
        self.exists(|list| Some(binary_expr(value, self.op, list)), names)
    }

    /// Returns conditions that are all true if and only if the comparison, which is `negated`, is. They
    /// are false if it is null.
    pub(super) fn conjuncts(&self, schema: &DFSchema, names: &AliasGenerator) -> Result<Vec<Expr>> {
        let reasons = self.reasons(schema, names)?;
        let all = [Some(reasons.true_for), reasons.null_in_list, reasons.null_value];
        Ok(all.into_iter().flatten().map(negation).collect())
    }

    /// Returns an expression with the value of the comparison: true, false or null.
    pub(super) fn three_valued(&self, schema: &DFSchema, names: &AliasGenerator) -> Result<Expr> {
        let reasons = self.reasons(schema, names)?;
        let is_null = match (reasons.null_in_list, reasons.null_value) {
            (Some(one), Some(other)) => one.or(other),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) if self.negated => return Ok(negation(reasons.true_for)),
            (None, None) => return Ok(reasons.true_for),
        };
        when(reasons.true_for, lit(!self.negated))
            .when(is_null, lit(ScalarValue::Boolean(None)))
            .otherwise(lit(self.negated))
    }

    fn reasons(&self, schema: &DFSchema, names: &AliasGenerator) -> Result<Reasons> {
        let true_for = self.condition(schema, names)?;
        let (_, field) = self.subquery.subquery.schema().qualified_field(0);
        let null_in_list = field.is_nullable().then(|| self.exists(|list| Some(list.is_null()), names)).transpose()?;
        let null_value = match self.value.nullable(schema)? {
            true => Some(self.value.clone().is_null().and(self.exists(|_| None, names)?)),
            false => None,
        };
        Ok(Reasons { true_for, null_in_list, null_value })
    }

    /// Returns whether the subquery has a row whose value meets a condition.
    fn exists(&self, condition: impl FnOnce(Expr) -> Option<Expr>, names: &AliasGenerator) -> Result<Expr> {
        let plan = self.subquery.subquery.as_ref().clone();
        // A name of its own: the outer query may read the same table.
        let name = names.next("__annulus_list");
        let values = Expr::from(plan.schema().qualified_field(0)).alias(name.as_str());
        let mut plan = LogicalPlanBuilder::from(plan).project([values])?;
        if let Some(condition) = condition(Expr::Column(Column::new_unqualified(name))) {
            plan = plan.filter(condition)?;
        }
        let mut plan = plan.build()?;
        let mut outer = plan.all_out_ref_exprs();
        for column in &self.subquery.outer_ref_columns {
            if !outer.contains(column) {
                outer.push(column.clone());
            }
        }
        if outer.is_empty() {
            // One row is enough, and all rows of the outer query meet it.
            plan = LogicalPlanBuilder::from(plan).limit(0, Some(1))?.build()?;
        }
        let subquery =
            Subquery { subquery: Arc::new(plan), outer_ref_columns: outer, spans: self.subquery.spans.clone() };
        Ok(Expr::Exists(Exists { subquery, negated: false }))
    }
}

/// Returns whether an expression has a comparison with the values of a subquery.
pub(super) fn has_comparison(expr: &Expr) -> bool {
    let is_one = |part: &Expr| Ok(matches!(part, Expr::InSubquery(_) | Expr::SetComparison(_)));
    expr.exists(is_one).unwrap_or(false)
}

fn in_subquery(value: Expr, subquery: Subquery) -> Expr {
    Expr::InSubquery(InSubquery { expr: Box::new(value), subquery, negated: true })
}

/// Returns the negation of a condition of [`Reasons`].
fn negation(condition: Expr) -> Expr {
    match condition {
        Expr::Exists(Exists { subquery, negated }) => Expr::Exists(Exists { subquery, negated: !negated }),
        other => not(other),
    }
}

/// Returns an expression of the outer query for a condition within a subquery.
fn in_subquery_of(value: &Expr, schema: &DFSchema) -> Result<Expr> {
    let moved = value.clone().transform_up(|part| {
        let Expr::Column(column) = part else { return Ok(Transformed::no(part)) };
        let field = Arc::clone(schema.field_from_column(&column)?);
        Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
    })?;
    Ok(moved.data)
}

/// Returns the type of the values of a dictionary, or of runs.
fn plain_type(data_type: &DataType) -> Option<DataType> {
    let values = match data_type {
        DataType::Dictionary(_, values) => values.as_ref(),
        DataType::RunEndEncoded(_, values) => values.data_type(),
        _ => return None,
    };
    Some(plain_type(values).unwrap_or_else(|| values.clone()))
}
