//! The methods of an operator that the plan inside it answers.

/// Implements methods of `ExecutionPlan` for an operator that has another plan in a field.
///
/// - `delegate!(self.stock: properties, children);` calls the same methods of `self.stock`.
/// - `delegate!(self.rewrap(self.stock): replace_children, reset_state);` calls them on an `Arc` of
///   `self.stock`, and hands the plan that they return to `self.rewrap`. It is a function of `&self`
///   and `Arc<dyn ExecutionPlan>`, and returns a `Result` of the latter.
/// - `delegate!(self.replace_children: with_new_children);` implements the deprecated method by the
///   one that has taken its place.
///
/// A field may be a plan, or an `Arc` of one; with `self.rewrap`, it is an `Arc`.
#[macro_export]
macro_rules! delegate {
    (self.$plan:ident: $($method:ident),+ $(,)?) => {
        $($crate::delegate!(@$method $plan);)+
    };
    (self.$rewrap:ident(self.$plan:ident): $($method:ident),+ $(,)?) => {
        $($crate::delegate!(@$method $plan $rewrap);)+
    };
    (@name $plan:ident) => {
        fn name(&self) -> &str {
            self.$plan.name()
        }
    };
    (@downcast_delegate $plan:ident) => {
        fn downcast_delegate(&self) -> Option<&dyn ::datafusion::physical_plan::ExecutionPlan> {
            Some(self.$plan.as_ref())
        }
    };
    (@properties $plan:ident) => {
        fn properties(&self) -> &::std::sync::Arc<::datafusion::physical_plan::PlanProperties> {
            self.$plan.properties()
        }
    };
    (@children $plan:ident) => {
        fn children(&self) -> Vec<&::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            self.$plan.children()
        }
    };
    (@apply_expressions $plan:ident) => {
        fn apply_expressions(
            &self,
            visit: &mut dyn FnMut(
                &::std::sync::Arc<dyn ::datafusion::physical_expr::PhysicalExpr>,
            )
                -> ::datafusion::error::Result<::datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> ::datafusion::error::Result<::datafusion::common::tree_node::TreeNodeRecursion> {
            self.$plan.apply_expressions(visit)
        }
    };
    (@dynamic_expressions_produced $plan:ident) => {
        fn dynamic_expressions_produced(
            &self,
        ) -> Vec<::std::sync::Arc<dyn ::datafusion::physical_expr::PhysicalExpr>> {
            self.$plan.dynamic_expressions_produced()
        }
    };
    (@with_new_children replace_children) => {
        fn with_new_children(
            self: ::std::sync::Arc<Self>,
            children: Vec<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>,
        ) -> ::datafusion::error::Result<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            let mode = ::datafusion::physical_plan::ChildrenPropertiesMode::Recompute;
            self.replace_children(children, ::datafusion::physical_plan::ReplaceChildrenOptions::new(mode))
        }
    };
    (@maintains_input_order $plan:ident) => {
        fn maintains_input_order(&self) -> Vec<bool> {
            self.$plan.maintains_input_order()
        }
    };
    (@benefits_from_input_partitioning $plan:ident) => {
        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            self.$plan.benefits_from_input_partitioning()
        }
    };
    (@execute $plan:ident) => {
        fn execute(
            &self,
            partition: usize,
            context: ::std::sync::Arc<::datafusion::execution::TaskContext>,
        ) -> ::datafusion::error::Result<::datafusion::execution::SendableRecordBatchStream> {
            self.$plan.execute(partition, context)
        }
    };
    (@metrics $plan:ident) => {
        fn metrics(&self) -> Option<::datafusion::physical_plan::metrics::MetricsSet> {
            self.$plan.metrics()
        }
    };
    (@child_stats_requests $plan:ident) => {
        fn child_stats_requests(&self, partition: Option<usize>) -> Vec<::datafusion::physical_plan::ChildStats> {
            self.$plan.child_stats_requests(partition)
        }
    };
    (@statistics_from_inputs $plan:ident) => {
        fn statistics_from_inputs(
            &self,
            inputs: &[::std::sync::Arc<::datafusion::common::Statistics>],
            args: &::datafusion::physical_plan::StatisticsArgs,
        ) -> ::datafusion::error::Result<::std::sync::Arc<::datafusion::common::Statistics>> {
            self.$plan.statistics_from_inputs(inputs, args)
        }
    };
    (@cardinality_effect $plan:ident) => {
        fn cardinality_effect(&self) -> ::datafusion::physical_plan::execution_plan::CardinalityEffect {
            self.$plan.cardinality_effect()
        }
    };
    (@gather_filters_for_pushdown $plan:ident) => {
        fn gather_filters_for_pushdown(
            &self,
            phase: ::datafusion::physical_plan::filter_pushdown::FilterPushdownPhase,
            parent_filters: Vec<::std::sync::Arc<dyn ::datafusion::physical_expr::PhysicalExpr>>,
            config: &::datafusion::config::ConfigOptions,
        ) -> ::datafusion::error::Result<::datafusion::physical_plan::filter_pushdown::FilterDescription> {
            self.$plan.gather_filters_for_pushdown(phase, parent_filters, config)
        }
    };
    (@handle_child_pushdown_result $plan:ident) => {
        fn handle_child_pushdown_result(
            &self,
            phase: ::datafusion::physical_plan::filter_pushdown::FilterPushdownPhase,
            result: ::datafusion::physical_plan::filter_pushdown::ChildPushdownResult,
            config: &::datafusion::config::ConfigOptions,
        ) -> ::datafusion::error::Result<
            ::datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation<
                ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>,
            >,
        > {
            self.$plan.handle_child_pushdown_result(phase, result, config)
        }
    };
    (@replace_children $plan:ident $rewrap:ident) => {
        fn replace_children(
            self: ::std::sync::Arc<Self>,
            children: Vec<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>,
            options: ::datafusion::physical_plan::ReplaceChildrenOptions,
        ) -> ::datafusion::error::Result<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            self.$rewrap(::std::sync::Arc::clone(&self.$plan).replace_children(children, options)?)
        }
    };
    (@reset_state $plan:ident $rewrap:ident) => {
        fn reset_state(
            self: ::std::sync::Arc<Self>,
        ) -> ::datafusion::error::Result<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            self.$rewrap(::std::sync::Arc::clone(&self.$plan).reset_state()?)
        }
    };
    (@try_swapping_with_projection $plan:ident $rewrap:ident) => {
        fn try_swapping_with_projection(
            &self,
            projection: &::datafusion::physical_plan::projection::ProjectionExec,
        ) -> ::datafusion::error::Result<Option<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>> {
            let swapped = self.$plan.try_swapping_with_projection(projection)?;
            swapped.map(|plan| self.$rewrap(plan)).transpose()
        }
    };
}
