"""Random cells: columns, and how a writer lays them out."""

import random
from dataclasses import dataclass, field, replace

import kinds

PYARROW, DUCKDB, POLARS, RUST = "pyarrow", "duckdb", "polars", "parquet-rs"
WRITERS = (PYARROW, DUCKDB, POLARS, RUST)
# Rows of a column chunk, some of which have a dictionary that is too large.
ROWS = (0, 1, 2, 50, 700, 700, 700, 2500, 6000, 20_000)
CODECS = {
    PYARROW: ("none", "snappy", "gzip", "zstd", "lz4", "brotli"),
    DUCKDB: ("uncompressed", "snappy", "gzip", "zstd", "lz4_raw", "brotli"),
    POLARS: ("uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli"),
    RUST: ("uncompressed", "snappy", "gzip(6)", "zstd(3)", "lz4_raw", "lz4", "brotli(3)"),
}
SHARES_OF_NULLS = (0, 0, 0.03, 0.5, 0.97, 1)
ENCODINGS = ("plain", "delta_binary_packed", "delta_length_byte_array", "delta_byte_array", "byte_stream_split", "rle")

# What each writer is asked for, with the values to choose from; None leaves its default.
OPTIONS = {
    PYARROW: {
        "version": ("1.0", "2.4", "2.6"), "data_page_version": ("1.0", "2.0"), "dictionary_pagesize_limit": (None, None, 64, 600),
        "data_page_size": (None, 100, 3000), "write_batch_size": (None, 10, 64), "max_rows_per_page": (None, 50),
        "write_page_index": (False, True), "write_statistics": (True, True, False), "store_schema": (True, True, False),
        "store_decimal_as_integer": (False, True), "use_deprecated_int96_timestamps": (False, False, True),
        "bloom": (False, True), "write_page_checksum": (False, True), "has_empty_group": (False, False, True),
        "use_content_defined_chunking": (False, False, True),
    },
    DUCKDB: {
        "PARQUET_VERSION": ("V1", "V2"), "DICTIONARY_SIZE_LIMIT": (None, 0, 5, 200), "STRING_DICTIONARY_PAGE_SIZE_LIMIT": (None, 300),
        "WRITE_BLOOM_FILTER": (None, "false"), "ROW_GROUPS_PER_FILE": (None,),
    },
    POLARS: {"statistics": (True, "full", False), "data_page_size": (None, 100, 3000)},
    RUST: {
        "writer_version": ("1.0", "2.0"), "dictionary_enabled": ("true", "false"), "dictionary_page_size_limit": (None, 64, 600),
        "data_pagesize_limit": (None, 100, 3000), "write_batch_size": (None, 10, 64), "data_page_row_count_limit": (None, 50),
        "statistics_enabled": ("none", "chunk", "page"), "bloom_filter_on_write": ("false", "true"),
        "skip_arrow_metadata": ("false", "false", "true"), "allow_single_file_parallelism": ("true", "false"),
        "column_index_truncate_length": (None, 2), "statistics_truncate_length": (None, 2),
    },
}
SETTINGS = {
    "datafusion.execution.batch_size": ("8192", "8192", "100", "7"),
    "datafusion.execution.target_partitions": ("1", "1", "3"),
    "datafusion.execution.parquet.pruning": ("true", "true", "false"),
    "datafusion.execution.parquet.enable_page_index": ("true", "true", "false"),
    "datafusion.execution.parquet.bloom_filter_on_read": ("true", "false"),
    "datafusion.execution.parquet.coerce_int96": (None, None, "us", "ms"),
    # Files that are not divided have fewer partitions, which are divided below the filter.
    "datafusion.optimizer.repartition_file_min_size": (None, "100", "100", "100"),
}


@dataclass
class Column:
    name: str
    kind: kinds.Kind
    pool: list
    values: list
    # The encoding that is asked for, and whether a dictionary is.
    encoding: str | None
    has_dictionary: bool

    def __str__(self):
        nulls = sum(value is None for value in self.values)
        return (f"{self.name} {self.kind.name} ({len(self.pool)} distinct, {nulls} null, {self.encoding or 'default'}"
                f"{', dictionary' if self.has_dictionary else ''})")


@dataclass
class Cell:
    seed: int
    number: int
    writer: str
    rows: int
    codec: str
    group_rows: int | None
    columns: list
    options: dict
    settings: dict = field(default_factory=dict)
    # The files: their first row and the row after the last one, and their columns.
    parts: list = field(default_factory=list)

    def files(self):
        """A cell for each file, with its rows and columns."""
        if not self.parts:
            return [self]
        known = {column.name: column for column in self.columns}
        return [replace(self, rows=last - first, parts=[], columns=[replace(known[name], values=known[name].values[first:last]) for name in names])
                for first, last, names in self.parts]

    def source(self, purpose):
        """Random numbers for a purpose."""
        return random.Random(f"{self.seed}.{self.number}.{purpose}")

    def describe(self):
        options = {name: value for name, value in self.options.items() if value is not None}
        settings = {name: value for name, value in self.settings.items() if value is not None}
        columns = "\n".join(f"  {column}" for column in self.columns)
        return (f"cell {self.number} of seed {self.seed}: {self.writer}, {self.rows} rows, codec {self.codec}, groups of {self.group_rows}\n"
                f"  files of rows {self.parts or 'all'}\n  {options}\n  {settings}\n{columns}")


def spread(source, pool, rows, share):
    """Values of a pool in a random order, in runs, or sorted, of which a share is null."""
    values = source.choices(pool, k=rows) if pool else []
    shape = source.choice(("random", "random", "runs", "sorted"))
    if shape != "random":
        places = {id(value): place for place, value in enumerate(pool)}
        values.sort(key=lambda value: places[id(value)])
    if shape == "runs" and rows:
        cut = source.randrange(rows)
        values = values[cut:] + values[:cut]
    if source.random() < 0.3:
        first, last = sorted((source.randint(0, rows), source.randint(0, rows)))
        return [None if share and first <= place < last else value for place, value in enumerate(values)]
    return [None if source.random() < share else value for value in values]


def in_order(kind, pool):
    """The values of a pool, the smallest first if they can be compared."""
    return sorted(pool, key=lambda value: (value != value, value)) if kind.family != kinds.NESTED else pool


def column(source, name, kind, rows):
    distinct = source.choice((1, 2, 5, 40, 300, max(rows, 1)))
    pool = in_order(kind, [kind.value(source) for _ in range(distinct)])
    values = spread(source, pool, rows, source.choice(SHARES_OF_NULLS))
    encoding = source.choice((None, None, *fitting(kind)))
    return Column(name, kind, pool, values, encoding, source.random() < 0.5)


def fitting(kind):
    """The encodings that values of a type can have, for most physical types."""
    if kind.family in (kinds.TEXT, kinds.BYTES):
        return ("plain", "delta_byte_array", "byte_stream_split") if "fixed" in kind.name else ("plain", *ENCODINGS[2:4])
    if kind.family == kinds.FLOAT:
        return ("plain", "byte_stream_split")
    if kind.family == kinds.TRUTH:
        return ("plain", "rle")
    return () if kind.family == kinds.NESTED else ("plain", "delta_binary_packed", "byte_stream_split")


def parts(source, cell):
    """Divides a cell into files. Some have their columns in another order, and some lack one."""
    if source.random() < 0.75:
        return []
    cuts = sorted(source.randint(0, cell.rows) for _ in range(source.choice((1, 2))))
    names, made = [column.name for column in cell.columns], []
    for first, last in zip([0, *cuts], [*cuts, cell.rows]):
        mine = names if not made or source.random() < 0.5 else source.sample(names, source.randint(1, len(names)))
        made.append((first, last, mine))
    return made


def chosen(source, options):
    return {name: source.choice(values) for name, values in options.items()}


def cell(seed, number, can_write):
    """The cell of a number. `can_write` has the types of each writer."""
    source = random.Random(f"{seed}.{number}")
    writer = source.choice((PYARROW, PYARROW, DUCKDB, POLARS, RUST, RUST))
    rows = source.choice(ROWS)
    names = [name for name in can_write[writer] if source.random() < 0.4 or name in kinds.SCALARS]
    columns = []
    for place in range(source.randint(2, 6)):
        name = columns[-1].kind.name if columns and source.random() < 0.25 else source.choice(names)
        columns.append(column(source, f"c{place}", kinds.KINDS[name], rows))
    made = Cell(seed, number, writer, rows, source.choice(CODECS[writer]), source.choice((None, 100, 1000, 2048)), columns,
                chosen(source, OPTIONS[writer]), chosen(source, SETTINGS))
    made.parts = parts(source, made)
    return made
