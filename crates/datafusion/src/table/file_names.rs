//! The function `input_file_name()` in scans of units: each file's name is put in its place.

use std::{path::Path, sync::Arc};

use annulus_dataset::absolute_path;
use arrow::datatypes::SchemaRef;
use datafusion::{
    common::tree_node::TreeNode,
    error::Result,
    physical_expr::{
        ScalarFunctionExpr,
        projection::{ProjectionExprs, Projector},
    },
    physical_expr_adapter::rewrite::rewrite_input_file_name_in_projection,
};

const FUNCTION: &str = "input_file_name";

/// A projection that names the files of its rows.
#[derive(Clone, Debug)]
pub(super) struct FileNames {
    projection: ProjectionExprs,
    input: SchemaRef,
}

impl FileNames {
    /// Returns `projection` of rows with the columns `input`, if it names files.
    pub(super) fn find_in(projection: &ProjectionExprs, input: &SchemaRef) -> Option<Self> {
        let is_name = |expr: &Arc<dyn datafusion::physical_expr::PhysicalExpr>| {
            Ok(expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|function| function.fun().name() == FUNCTION))
        };
        let names = projection.iter().any(|expr| expr.expr.exists(is_name).unwrap_or(false));
        names.then(|| Self { projection: projection.clone(), input: Arc::clone(input) })
    }

    /// Returns the projection of the rows of one file. Its name is as in scans of DataFusion: the absolute
    /// path without the first `/`.
    pub(super) fn of_file(&self, path: &str) -> Result<Projector> {
        let absolute = absolute_path(Path::new(path))?;
        let name = absolute.to_string_lossy();
        let projection = rewrite_input_file_name_in_projection(self.projection.clone(), name.trim_start_matches('/'))?;
        projection.make_projector(&self.input)
    }

    /// Returns both projections as one.
    pub(super) fn then(&self, next: &ProjectionExprs) -> Result<Self> {
        Ok(Self { projection: self.projection.try_merge(next)?, input: Arc::clone(&self.input) })
    }

    pub(super) fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::new(self.projection.project_schema(&self.input)?))
    }

    pub(super) fn projection(&self) -> &ProjectionExprs {
        &self.projection
    }

    pub(super) fn input(&self) -> &SchemaRef {
        &self.input
    }
}
