//! `TIMESTAMPTZ`, the type of instants.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, FieldRef, TimeUnit},
    common::{datatype::DataTypeExt, plan_err},
    error::Result,
    execution::{SessionState, SessionStateBuilder},
    logical_expr::planner::TypePlanner,
    sql::sqlparser::ast::{DataType as SqlType, TimezoneInfo},
};

/// The zone of instants in a session without one, as files have it.
const ZONE: &str = "UTC";

/// Returns the session in which `TIMESTAMPTZ` has a zone: that of the session, or UTC.
///
/// In DataFusion 55.2 it has the session's zone (`datafusion.execution.time_zone`). In a session without one it would
/// be the type of a wall clock's times, like `TIMESTAMP`, and they are not compared with instants.
pub fn with_instants(state: &SessionState) -> SessionState {
    if state.config_options().execution.time_zone.is_some() {
        return state.clone();
    }
    // Otherwise the new session would replace the catalog that both share by an empty one.
    let config = state.config().clone().with_create_default_catalog_and_schema(false);
    let builder = SessionStateBuilder::new_from_existing(state.clone()).with_config(config);
    builder.with_type_planner(Arc::new(Instants)).build()
}

#[derive(Debug)]
struct Instants;

impl TypePlanner for Instants {
    fn plan_type_field(&self, sql_type: &SqlType) -> Result<Option<FieldRef>> {
        let SqlType::Timestamp(digits, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) = sql_type else {
            return Ok(None);
        };
        let unit = match digits {
            Some(0) => TimeUnit::Second,
            Some(3) => TimeUnit::Millisecond,
            Some(6) => TimeUnit::Microsecond,
            None | Some(9) => TimeUnit::Nanosecond,
            Some(other) => return plan_err!("{sql_type} has {other} digits of a second: choose 0, 3, 6 or 9"),
        };
        Ok(Some(DataType::Timestamp(unit, Some(ZONE.into())).into_nullable_field_ref()))
    }
}
