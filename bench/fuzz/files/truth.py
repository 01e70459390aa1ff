"""What DataFusion reads, compared with what PyArrow reads from the same file."""

import pyarrow
import pyarrow.parquet

import compare

EQUAL, UNCOMPARED = "equal", "not compared"


def in_type(column, kind):
    """A column of PyArrow as the type that DataFusion has for it, or None."""
    types = pyarrow.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if isinstance(column.type, pyarrow.BaseExtensionType):
        column = pyarrow.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if types.is_dictionary(kind):
        kind = kind.value_type
    try:
        return column if column.type == kind else column.cast(kind)
    except pyarrow.ArrowException:
        return None


def verdicts(path, found):
    """For each column that DataFusion has read, in the order of the file, whether PyArrow reads the same: a word or an example."""
    read, made = pyarrow.parquet.ParquetFile(path, memory_map=False).read(), {}
    for name in found.column_names:
        ours = found.column(name)
        theirs = in_type(read.column(name), ours.type)
        if theirs is None:
            made[name] = UNCOMPARED
            continue
        if pyarrow.types.is_dictionary(ours.type):
            ours = ours.cast(ours.type.value_type)
        pairs = list(zip(compare.numbers(theirs), compare.numbers(ours)))
        unequal = [pair for pair in pairs if pair[0] != pair[1]]
        if len(theirs) != len(ours):
            unequal.append((f"{len(theirs)} rows", f"{len(ours)} rows"))
        made[name] = f"PyArrow {unequal[0][0]!r}, DataFusion {unequal[0][1]!r}, {len(unequal)} rows" if unequal else EQUAL
    return made
