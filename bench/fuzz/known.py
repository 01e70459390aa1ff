"""What DataFusion itself, without Annulus, does not do as DuckDB does. Each has its reason."""

import re

# Errors of the planner: nothing has run.
PLANNER = (
    "This feature is not implemented",
    "Physical plan does not support logical expression",
    "Correlated scalar subquery",
    "Error during planning",
    "type_coercion",
)

NESTED_LOOPS = (
    "NestedLoopJoinExec, short of memory, executes its left side again: rows are output once for each partition of the right "
    "side, an empty left side is an error, and a RepartitionExec below panics"
)

# A pattern of the query, and the reason.
DIFFERENCES = (
    (r" NOT IN \(SELECT .*\) OR ",
     "NOT IN beside OR: a mark join marks what is unknown, because of a null, as false, so NOT makes it true"),
    (r" NOT IN \(SELECT z\.\w+ FROM .* AS z WHERE .*[a-e]\.",
     "NOT IN with a correlated subquery: a null is found unknown though its subquery is empty"),
    (r"IS NOT DISTINCT FROM.* JOIN|JOIN.* JOIN .*IS NOT DISTINCT FROM",
     "IS NOT DISTINCT FROM beside another join: both are ordered anew with one kind of equality"),
    (r"(LEFT|RIGHT|FULL) JOIN .* WHERE ",
     "a filter above an outer join, on columns of one name on both sides, is moved to one of them"),
    (r"GROUP BY k0.* ORDER BY ",
     "an order by the keys of a grouping below a join: the columns of the other side are taken to depend on them"),
    (r"SELECT .*sum\(a\.\w+\).* FROM \(SELECT .* UNION ALL ",
     "a sum over a union that has no rows is 0 and not null: it is taken from the sums that statistics state"),
    (r"SELECT DISTINCT .* LIMIT ",
     "DISTINCT with LIMIT of a sorted file: the order of the groups has no direction"),
)

# The same of errors that only plans with SortMergeJoinExec have.
SORT_MERGE = (
    (r"is declared as non-nullable but contains null values",
     "SortMergeJoinExec checks outer rows against columns that are not nullable"),
    (r"column types must match schema types", "SortMergeJoinExec takes the columns of one side for those of the other"),
    (r"index out of bounds: the len is \d+ but the index is \d+", "SortMergeJoinExec panics in the filter of a join"),
)


def cannot_plan(error):
    """Whether an error is one of the planner."""
    return any(text in error for text in PLANNER)


def reason(case):
    """Why DataFusion differs in a case, if that is known."""
    sql = case.query.sql()
    return next((reason for pattern, reason in DIFFERENCES if re.search(pattern, sql)), None)


def sort_merge_reason(error, operators):
    """Why a plan failed, if that is a known failure of SortMergeJoinExec."""
    if "SortMergeJoinExec" not in operators:
        return None
    return next((reason for pattern, reason in SORT_MERGE if re.search(pattern, error)), None)
