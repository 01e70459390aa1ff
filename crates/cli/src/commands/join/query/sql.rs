//! Expressions over the columns of both sides.

use std::sync::Arc;

use annulus_datafusion::{Incomparable, compare};
use annulus_join::{JoinType, Side, Sides};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::{
    common::{Column, DFSchema, ExprSchema, SchemaError, TableReference},
    error::DataFusionError,
    execution::{SessionState, SessionStateBuilder},
    logical_expr::Expr,
    optimizer::simplify_expressions::{ExprSimplifier, SimplifyContext},
    prelude::SessionConfig,
    sql::{sqlparser::ast::ExprWithAlias, sqlparser::parser::ParserError, unparser::Unparser},
};

use crate::{errors, instants::with_instants, standard_sql};

/// The columns of both sides by name, with a session of DataFusion that plans expressions over
/// them.
pub(super) struct Sql {
    state: Arc<SessionState>,
    pub(super) sides: Sides<(TableReference, SchemaRef)>,
    joined: Arc<DFSchema>,
}

impl Sql {
    /// Plans expressions with the options of `session`.
    pub(super) fn new(
        left: (&str, &SchemaRef),
        right: (&str, &SchemaRef),
        session: &SessionConfig,
    ) -> Result<Self, DataFusionError> {
        let mut config = session.clone();
        // Column names keep their upper and lower case, as in the files.
        config.options_mut().sql_parser.enable_ident_normalization = false;
        let state = SessionStateBuilder::new().with_config(config).with_default_features().build();
        let sides = Sides { left, right }.map(|(name, schema)| (TableReference::bare(name), Arc::clone(schema)));
        Self::from_state(Arc::new(with_instants(&state)), sides)
    }

    /// Returns the same for the rows that a join outputs. Columns of a side that may be missing are
    /// nullable, and a side that the join does not output has no columns.
    pub(super) fn of_joined(&self, join: JoinType) -> Result<Self, DataFusionError> {
        let joined = |side: Side| {
            let (name, schema) = &self.sides[side];
            let fields = schema.fields().iter().filter(|_| join.outputs(side));
            let fields =
                fields.map(|field| Field::clone(field).with_nullable(field.is_nullable() || join.may_lack(side)));
            (name.clone(), Arc::new(Schema::new(fields.collect::<Vec<_>>())))
        };
        Self::from_state(Arc::clone(&self.state), Sides { left: joined(Side::Left), right: joined(Side::Right) })
    }

    fn from_state(
        state: Arc<SessionState>,
        sides: Sides<(TableReference, SchemaRef)>,
    ) -> Result<Self, DataFusionError> {
        let Sides { left, right } = &sides;
        let schema =
            |(name, schema): &(TableReference, SchemaRef)| DFSchema::try_from_qualified_schema(name.clone(), schema);
        let joined = Arc::new(schema(left)?.join(&schema(right)?)?);
        Ok(Self { state, sides, joined })
    }

    /// Parses a predicate.
    pub(super) fn parse(&self, text: &str) -> Result<Expr, DataFusionError> {
        let dialect = self.state.config_options().sql_parser.dialect;
        self.resolve(self.state.sql_to_expr_with_alias(text, &dialect)?)
    }

    /// Resolves the names in a parsed expression.
    pub(super) fn resolve(&self, mut parsed: ExprWithAlias) -> Result<Expr, DataFusionError> {
        standard_sql::apply(&mut parsed)?;
        self.unambiguous(self.state.create_logical_expr_from_sql_expr(parsed, &self.joined)?)
    }

    /// Refuses names without a qualifier that both sides have.
    fn unambiguous(&self, expr: Expr) -> Result<Expr, DataFusionError> {
        let both_have = |name: &str| self.sides.iter().all(|(_, schema)| schema.index_of(name).is_ok());
        let found = expr.column_refs().into_iter().find(|column| column.relation.is_none() && both_have(&column.name));
        let Some(column) = found else { return Ok(expr) };
        let Sides { left, right } = self.sides.as_ref().map(|(side, _)| format!("{side}.{}", column.name));
        let reason = format!("both inputs have a column '{}'; write {left} or {right}", column.name);
        Err(DataFusionError::Plan(reason))
    }

    /// Returns an expression as SQL text.
    pub(super) fn text(&self, expr: &Expr) -> String {
        let text = Unparser::default().with_pretty(true).expr_to_sql(expr).map(|sql| sql.to_string());
        text.unwrap_or_else(|_| expr.human_display().to_string())
    }

    /// Returns the columns of an expression that are text, by name.
    pub(super) fn text_columns(&self, expr: &Expr) -> Vec<Column> {
        let is_text = |column: &&Column| self.joined.data_type(column).is_ok_and(|data_type| data_type.is_string());
        let mut columns: Vec<Column> = expr.column_refs().into_iter().filter(is_text).cloned().collect();
        columns.sort();
        columns
    }

    /// Returns whether a column of an expression is a time with a zone.
    pub(super) fn has_zone(&self, expr: &Expr) -> bool {
        let has_zone = |column: &Column| matches!(self.joined.data_type(column), Ok(DataType::Timestamp(_, Some(_))));
        expr.column_refs().into_iter().any(has_zone)
    }

    /// Returns the expression of a column.
    pub(super) fn column(&self, side: Side, name: &str) -> Expr {
        let (qualifier, _) = &self.sides[side];
        Expr::Column(Column::new(Some(qualifier.clone()), name))
    }

    /// Returns the same expression with types coerced and constants folded.
    pub(super) fn prepare(&self, expr: Expr) -> Result<Expr, DataFusionError> {
        let context = SimplifyContext::builder()
            .with_schema(Arc::clone(&self.joined))
            .with_config_options(Arc::clone(self.state.config_options()))
            .with_query_execution_start_time(self.state.execution_props().query_execution_start_time)
            .build();
        let simplifier = ExprSimplifier::new(context);
        let compared = compare(expr, &self.joined, self.state.config_options())?;
        let coerced = simplifier.coerce(compared, &self.joined)?;
        // Simplifying may have changed types, so coerce again.
        simplifier.coerce(simplifier.simplify(coerced)?, &self.joined)
    }

    /// Returns the type of an expression.
    pub(super) fn type_of(&self, expr: &Expr) -> Result<DataType, DataFusionError> {
        use datafusion::logical_expr::ExprSchemable;
        expr.get_type(&*self.joined)
    }

    /// Returns the columns that an expression uses, each once, the left side's first.
    pub(super) fn columns(&self, expr: &Expr) -> Vec<(Side, usize)> {
        let mut columns: Vec<_> = expr.column_refs().into_iter().filter_map(|column| self.find(column)).collect();
        columns.sort_by_key(|&(side, column)| (side == Side::Right, column));
        columns.dedup();
        columns
    }

    pub(super) fn find(&self, column: &Column) -> Option<(Side, usize)> {
        let found = self.joined.index_of_column(column).ok()?;
        let left = self.sides.left.1.fields().len();
        Some(if found < left { (Side::Left, found) } else { (Side::Right, found - left) })
    }

    /// Returns the one side whose columns an expression uses, if there is only one.
    pub(super) fn only_side(&self, expr: &Expr) -> Option<Side> {
        let columns = self.columns(expr);
        let (side, _) = *columns.first()?;
        columns.iter().all(|column| column.0 == side).then_some(side)
    }
}

/// Returns the message of a DataFusion error, in plain words.
pub(crate) fn reason(error: &DataFusionError) -> String {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => {
                let columns: Vec<_> = valid_fields.iter().map(Column::quoted_flat_name).collect();
                format!("no column '{}'; the columns are {}", field.flat_name(), columns.join(", "))
            }
            error => error.to_string(),
        },
        DataFusionError::SQL(error, _) => match error.as_ref() {
            ParserError::ParserError(message) | ParserError::TokenizerError(message) => message.clone(),
            ParserError::RecursionLimitExceeded => "it is nested too deeply".to_owned(),
        },
        DataFusionError::Plan(message) | DataFusionError::Execution(message) => message.clone(),
        DataFusionError::ArrowError(error, _) => error.to_string(),
        DataFusionError::External(error) => match error.downcast_ref::<Incomparable>() {
            Some(error) => errors::incomparable(error),
            None => error.to_string(),
        },
        other => other.strip_backtrace(),
    }
}
