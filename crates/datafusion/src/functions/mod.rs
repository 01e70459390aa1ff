//! Functions by which rows are similar, beside those that DataFusion has.

mod tokens;
mod vectors;

use std::sync::Arc;

use datafusion::{execution::SessionStateBuilder, logical_expr::ScalarUDF};

pub(crate) use tokens::TokenFunction;
pub(crate) use vectors::CosineSimilarity;

/// Adds the functions of Annulus to a session, unless it has others of their names. Those that run plans which were
/// made elsewhere need them, too.
pub fn install_functions(builder: &mut SessionStateBuilder) {
    let known = builder.scalar_functions().get_or_insert_default();
    let tokens = TokenFunction::all().map(ScalarUDF::new_from_impl);
    for function in tokens.chain([ScalarUDF::new_from_impl(CosineSimilarity::default())]) {
        if !known.iter().any(|other| other.name() == function.name()) {
            known.push(Arc::new(function));
        }
    }
}
