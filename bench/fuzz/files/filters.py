"""Random queries on a cell: filters, projections, limits and counts."""

from dataclasses import dataclass

from kinds import BYTES, FLOAT, NESTED, NUMBER, TEXT, TIME, TRUTH

COMPARISONS = ("=", "<", "<=", ">", ">=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
# Constants that most columns of a family do not have.
BEYOND = {
    NUMBER: ("300", "-1", "70000", "5000000000", "18446744073709551615", "-9223372036854775808", "1e30", "0.5", "1.25", "NULL"),
    FLOAT: ("300", "1e300", "-1e300", "0.1", "CAST('NaN' AS DOUBLE)", "-0.0", "0.0", "CAST('inf' AS DOUBLE)", "NULL"),
    TEXT: ("''", "'~~~~~~~~~~~~~~~'", "'prefix'", "'\U0010ffff'", "'a '", "NULL"),
    BYTES: ("X''", "X'ffffffffffffffffffffffffffffffffff'", "NULL"),
    TIME: ("NULL",),
    TRUTH: ("NULL", "true", "false"),
}
PATTERNS = ("prefix-1%", "%suffix", "%1%", "_", "", "%", "a", "prefix-__", "%ß%", "PREFIX%", r"\%", "x%x", "%\U0001f600", "zzzzzzzzzzzz_", "prefix-%-suffix%")
REGEXES = ("^prefix-[0-4]", "suffix$", "[äöü]", "^$", "1.*2")
# Conditions with {} for a column, by family.
FUNCTIONS = {
    NUMBER: ("{} % 3 = 1", "{} + 1 > 5", "{} * 2 < 100", "abs({}) < 50", "CAST({} AS VARCHAR) LIKE '1%'", "coalesce({}, 0) = 0", "-{} > 3",
             "CAST({} AS DOUBLE) > 10.5", "TRY_CAST({} AS TINYINT) = 1", "100 / nullif({}, 0) > 3", "100 / {} > 3", "nullif({}, 1) IS NULL",
             "CASE WHEN {} > 5 THEN true WHEN {} IS NULL THEN NULL ELSE false END"),
    FLOAT: ("isnan({})", "NOT isnan({})", "abs({}) < 1", "{} + 1 > 2", "coalesce({}, 1) = 1", "CAST({} AS VARCHAR) LIKE '-%'", "{} = {}",
            "{} <> {}", "iszero({})", "round({}) = 1", "signum({}) < 0", "CAST({} AS VARCHAR) = '-0.0'"),
    TEXT: ("length({}) > 12", "upper({}) = 'A'", "lower({}) LIKE 'prefix%'", "substr({}, 1, 2) = 'pr'", "{} || 'x' = 'ax'", "starts_with({}, 'prefix')",
           "coalesce({}, '') = ''", "octet_length({}) <> length({})", "TRY_CAST({} AS INT) = 12", "CAST({} AS INT) = 12", "reverse({}) > 'm'",
           "btrim({}) = ''", "CASE {} WHEN 'a' THEN true WHEN 'b' THEN false END", "strpos({}, '-') > 3"),
    BYTES: ("encode(arrow_cast({}, 'Binary'), 'hex') LIKE '0%'", "{} = {}", "md5(arrow_cast({}, 'Binary')) > '8'"),
    TIME: ("CAST({} AS VARCHAR) LIKE '%1%'", "{} = {}", "coalesce({}, {}) IS NULL", "CAST({} AS VARCHAR) > '1980'"),
    TRUTH: ("{}", "NOT {}", "{} IS TRUE", "{} IS NOT FALSE", "{} IS UNKNOWN", "coalesce({}, true)", "CAST({} AS INT) = 1"),
    NESTED: ("CAST({} AS VARCHAR) LIKE '%1%'", "{} = {}"),
}
CALENDAR = ("date_part('year', {}) > 1980", "date_part('month', {}) = 1", "date_trunc('month', {}) = {}", "{} + INTERVAL '1 day' > now() - INTERVAL '40 years'",
            "CAST({} AS DATE) > DATE '1975-01-01'", "to_char({}, '%Y') = '1970'")


# Tables of more rows are not joined.
MOST_JOINED = 700


@dataclass(frozen=True)
class Query:
    select: str
    where: str | None = None
    limit: str = ""
    # The columns that it reads, as far as their names tell.
    columns: frozenset = frozenset()
    # All of the query, if it is not made of these.
    text: str | None = None

    def sql(self):
        if self.text:
            return self.text
        where = f" WHERE {self.where}" if self.where else ""
        return f"SELECT {self.select} FROM t{where}{self.limit}"


def are_comparable(one, other):
    """Whether values of two types can be compared with each other."""
    are_alike = one.family == other.family and one.family not in (BYTES, TIME)
    return are_alike or one.name.partition("[")[0] == other.name.partition("[")[0]


class Conditions:
    """Random conditions on the columns of a cell. `source` is of random numbers."""

    def __init__(self, source, columns):
        self.source, self.columns, self.used = source, columns, set()

    def choose(self, column=None):
        """A column that is read."""
        column = column or self.source.choice(self.columns)
        self.used.add(column.name)
        return column

    def constant(self, column):
        source, kind = self.source, column.kind
        if kind.literal is None:
            return "NULL"
        choice = source.random()
        if choice < 0.12:
            return source.choice(BEYOND[kind.family])
        return kind.literal(kind.value(source) if choice < 0.3 else source.choice(column.pool))

    def comparison(self):
        column = self.choose()
        return f"({column.name} {self.source.choice(COMPARISONS)} {self.constant(column)})"

    def between(self):
        column, word = self.choose(), self.source.choice(("BETWEEN", "BETWEEN", "NOT BETWEEN"))
        bounds = [self.constant(column), self.constant(column)]
        if column.kind.literal and self.source.random() < 0.8:
            places = sorted(self.source.choices(range(len(column.pool)), k=2))
            bounds = [column.kind.literal(column.pool[place]) for place in places]
        return f"{column.name} {word} {bounds[0]} AND {bounds[1]}"

    def listed(self):
        column = self.choose()
        values = [self.constant(column) for _ in range(self.source.choice((1, 2, 3, 5, 30)))]
        return f"{column.name} {self.source.choice(('IN', 'IN', 'NOT IN'))} ({', '.join(values)})"

    def null(self):
        return f"{self.choose().name} IS {self.source.choice(('', 'NOT '))}NULL"

    def pattern(self):
        texts = [column for column in self.columns if column.kind.family == TEXT]
        if not texts:
            return self.comparison()
        column = self.choose(self.source.choice(texts))
        if self.source.random() < 0.25:
            return f"{column.name} {self.source.choice(('~', '!~', '~*'))} '{self.source.choice(REGEXES)}'"
        word = self.source.choice(("LIKE", "LIKE", "NOT LIKE", "ILIKE"))
        return f"{column.name} {word} '{self.source.choice(PATTERNS)}'"

    def function(self):
        column = self.choose()
        known = FUNCTIONS[column.kind.family]
        if column.kind.name.startswith(("date", "timestamp")):
            known += CALENDAR
        return self.source.choice(known).replace("{}", column.name)

    def pair(self):
        first = self.choose()
        like = [column for column in self.columns if are_comparable(column.kind, first.kind)]
        second = self.choose(self.source.choice(like))
        return f"({first.name} {self.source.choice(COMPARISONS)} {second.name})"

    def simple(self):
        ways = (self.comparison, self.comparison, self.comparison, self.between, self.listed, self.null, self.pattern, self.function, self.pair)
        return self.source.choice(ways)()

    def any(self, depth=2):
        choice = self.source.random()
        if depth == 0 or choice < 0.5:
            return self.simple()
        if choice < 0.6:
            return f"NOT ({self.any(depth - 1)})"
        word = "AND" if choice < 0.85 else "OR"
        return f"({f' {word} '.join(self.any(depth - 1) for _ in range(self.source.choice((2, 2, 3))))})"


def projection(source, columns, used):
    """What a query selects. Some columns of the filter are left out, and some are read only here."""
    choice = source.random()
    if choice < 0.15:
        return "count(*)"
    if choice < 0.25:
        used.update(column.name for column in columns)
        return "*"
    chosen = source.sample(columns, source.randint(1, len(columns)))
    used.update(column.name for column in chosen)
    if choice < 0.35:
        return f"count(*), {', '.join(f'count({column.name})' for column in chosen)}"
    if choice < 0.45:
        return ", ".join(f"{column.name} IS NULL AS n_{column.name}, {column.name}" for column in chosen)
    return ", ".join(column.name for column in chosen)


def above(source, columns, rows, conditions):
    """What operators above a scan ask: groups, the first rows in an order, and joins, whose keys filter other scans."""
    key, where = conditions.choose(source.choice(columns)).name, conditions.any()
    ways = ["group", "least", "order", "order"] + (["join", "semi"] if rows <= MOST_JOINED else [])
    way = source.choice(ways)
    if way == "group":
        return f"SELECT {key}, count(*) FROM t WHERE {where} GROUP BY {key}"
    if way == "least":
        return f"SELECT min({key}), max({key}), count({key}) FROM t WHERE {where}"
    if way == "order":
        where = f" WHERE {where}" if source.random() < 0.5 else ""
        nulls = source.choice(("", " NULLS FIRST", " NULLS LAST"))
        return f"SELECT {key} FROM t{where} ORDER BY {key}{source.choice(('', ' DESC'))}{nulls} LIMIT {source.choice((1, 5, 200))}"
    if way == "semi":
        return f"SELECT {key} FROM t WHERE {key} {source.choice(('', 'NOT '))}IN (SELECT {key} FROM t WHERE {where})"
    return f"SELECT a.{key}, count(*) FROM (SELECT * FROM t WHERE {where}) a JOIN t b ON a.{key} = b.{key} GROUP BY a.{key}"


def query(source, columns, rows):
    conditions = Conditions(source, columns)
    choice = source.random()
    if choice > 0.93:
        text = above(source, columns, rows, conditions)
        return Query("", text=text, columns=frozenset(conditions.used))
    if choice < 0.05:
        offset = f" OFFSET {source.choice((1, 100))}" if source.random() < 0.3 else ""
        select = projection(source, columns, conditions.used)
        return Query(select, None, f" LIMIT {source.choice((0, 1, 10, 150, 5000))}{offset}", frozenset(conditions.used))
    where = None if choice < 0.08 else conditions.any()
    return Query(projection(source, columns, conditions.used), where, "", frozenset(conditions.used))


def queries(cell, count):
    source = cell.source("queries")
    return [query(source, cell.columns, cell.rows) for _ in range(count)]


