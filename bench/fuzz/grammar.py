"""Random queries with joins, in SQL that DataFusion and DuckDB understand alike."""

import dataclasses
from dataclasses import dataclass, field

from tables import COLUMNS, LARGE

COMPARISONS = ("<", "<=", ">", ">=")
KEYS = ("k0", "k1")


@dataclass
class Relation:
    """A table or a subquery, with the columns of a table."""

    text: str
    alias: str

    def sql(self):
        return f"{self.text} AS {self.alias}"


@dataclass
class Join:
    kind: str
    relation: Relation
    on: list

    def sql(self):
        if self.kind == "CROSS":
            return f"CROSS JOIN {self.relation.sql()}"
        return f"{self.kind} JOIN {self.relation.sql()} ON {' AND '.join(self.on) or 'true'}"


@dataclass
class Query:
    """A query. With an order, it is by all columns; with a limit alone, any rows will do."""

    select: list
    source: Relation
    joins: list
    where: list = field(default_factory=list)
    group: list = field(default_factory=list)
    distinct: bool = False
    # The rest of a UNION ALL.
    union: object = None
    order: list | None = None
    limit: int | None = None
    offset: int = 0

    def body(self):
        parts = [f"SELECT {'DISTINCT ' if self.distinct else ''}{', '.join(self.select)}", f"FROM {self.source.sql()}"]
        parts += [join.sql() for join in self.joins]
        parts += [f"WHERE {' AND '.join(self.where)}"] if self.where else []
        parts += [f"GROUP BY {', '.join(self.group)}"] if self.group else []
        parts += [f"UNION ALL {self.union.body()}"] if self.union else []
        return " ".join(parts)

    def sql(self):
        return self.body() + self.ordering() + self.cut()

    def ordering(self):
        if not self.order:
            return ""
        return " ORDER BY " + ", ".join(f"{place + 1} {way}" for place, way in enumerate(self.order[:len(self.select)]))

    def cut(self):
        if self.limit is None:
            return ""
        return f" LIMIT {self.limit}" + (f" OFFSET {self.offset}" if self.offset else "")

    def reference(self):
        """What another engine must answer: all rows, if a limit may leave any of them."""
        return self.sql() if self.order else self.body()

    def copy(self, **changes):
        return dataclasses.replace(self, **changes)


class Grammar:
    """Makes queries over the tables `t0`, `t1` and so on, of these families."""

    def __init__(self, random, schema, count):
        self.random, self.schema, self.count = random, schema, count

    def chance(self, share):
        return self.random.random() < share

    def table(self):
        return f"t{self.random.randrange(self.count)}"

    def relation(self, alias, depth=0):
        """A table, or a subquery over one."""
        table, random = self.table(), self.random
        if self.chance(0.65):
            return Relation(table, alias)
        columns = ", ".join(COLUMNS)
        keys = random.choice((["k0"], ["k0", "k1"]))
        grouped = {"id": "min(id)", "k0": "k0", "k1": "k1" if "k1" in keys else "count(k1)", "x": "max(v)", "y": "max(v)",
                   "v": "count(*)", "s": "min(s)"}
        order = ", ".join(f"{name} {random.choice(('ASC NULLS LAST', 'DESC NULLS FIRST'))}" for name in ("v", "id"))
        choices = [
            f"(SELECT {columns} FROM {table} WHERE {self.single('')})",
            f"(SELECT DISTINCT {columns} FROM {table})",
            f"(SELECT {columns} FROM {table} UNION ALL SELECT {columns} FROM {table} WHERE {self.single('')})",
            f"({self.marked(table, 2)} UNION ALL {self.marked(table, 1)})",
            f"(SELECT {columns} FROM {table} ORDER BY {order} LIMIT {random.choice((0, 1, 5, 50))})",
            f"(SELECT {', '.join(f'p.{name}' for name in COLUMNS)} FROM {table} AS p JOIN {self.table()} AS q ON p.id = q.id)",
        ]
        if "k1" in keys:
            extremes = {**grouped, "x": "min(x)", "y": "max(y)"} if self.schema.families["x"].name != "float" else None
            if extremes and self.schema.families["k0"].name != "float" and self.schema.families["k1"].name != "float":
                listed = ", ".join(name if text == name else f"{text} AS {name}" for name, text in extremes.items())
                choices += [f"(SELECT {listed} FROM {table} GROUP BY {', '.join(keys)})"] * 2
        return Relation(random.choice(choices), alias)

    def marked(self, table, number):
        """Rows of a table with a constant, which holds for this part of a union."""
        columns = ", ".join(f"{number} AS v" if name == "v" else name for name in COLUMNS)
        return f"SELECT {columns} FROM {table} WHERE {self.single('')}"

    def single(self, alias):
        """A condition on one relation."""
        at = f"{alias}." if alias else ""
        return self.random.choice((
            f"{at}v > {self.random.randrange(20)}", f"{at}v < {self.random.randrange(20)}", f"{at}v IS NOT NULL",
            f"{at}v IS NULL", f"{at}s >= 'k'", f"{at}k0 IS NOT NULL", f"{at}id % 3 <> 1", f"{at}v IN (1, 2, 3, 5, 8)",
        ))

    def equal(self, a, b):
        key = self.random.choice(KEYS)
        if self.chance(0.1):
            return f"({a}.{key} IS NOT DISTINCT FROM {b}.{key})"
        if self.schema.families[key].name == "integer" and self.chance(0.1):
            return f"CAST({a}.{key} AS BIGINT) + 1 = CAST({b}.{key} AS BIGINT)"
        if self.chance(0.05):
            return f"{a}.v = {b}.v"
        if self.chance(0.05):
            return f"upper({a}.s) = upper({b}.s)"
        return f"{a}.{key} = {b}.{key}"

    def far(self, end, sign):
        """An end, moved by a constant."""
        family = self.schema.families["x"]
        if family.name in ("integer", "byte"):
            end = f"CAST({end} AS BIGINT)"
        return f"{end} {sign} {family.offset(self.random.randrange(12))}"

    def band(self, a, b):
        """Conditions on pairs, other than equality of keys."""
        random = self.random
        less, more = random.choice(("<", "<=")), random.choice((">", ">="))
        return random.choice((
            [f"{a}.x BETWEEN {self.far(f'{b}.x', '-')} AND {self.far(f'{b}.x', '+')}"],
            [f"{a}.x {more} {b}.x", f"{a}.x {less} {b}.y"],
            [f"{a}.x {more} {b}.x", f"{self.far(f'{b}.y', '+')} {more} {a}.x"],
            [f"{a}.x {less} {b}.y", f"{b}.x {less} {a}.y"],
            [f"{a}.{random.choice('xy')} {random.choice(COMPARISONS)} {b}.{random.choice('xy')}"],
            [f"{self.far(f'{a}.x', '+')} {less} {b}.x"],
            [f"{a}.v BETWEEN {b}.v - 1 AND {b}.v + {random.randrange(4)}"],
        ))

    def filter(self, a, b):
        """Any condition on pairs."""
        return self.random.choice((
            f"{a}.v < {b}.v", f"{a}.v + {b}.v > {self.random.randrange(40)}", f"{a}.s <> {b}.s", f"{a}.id <> {b}.id",
            f"({a}.v = {b}.v OR {a}.k1 = {b}.k1)", f"({a}.v IS NULL OR {b}.v > 3)", f"coalesce({a}.v, {b}.v) < 15",
            f"CASE WHEN {a}.v > 10 THEN {b}.v > 5 ELSE {b}.v <= 12 END", f"NOT ({a}.s < {b}.s)", self.single(a), self.single(b),
        ))

    def conditions(self, a, b):
        """The conditions that join `a` to `b`."""
        shape, made = self.random.random(), []
        if self.schema.size == LARGE:
            made.append(f"{a}.k0 = {b}.k0")
            made += self.band(a, b) if self.chance(0.2) else []
        elif shape < 0.65:
            made.append(self.equal(a, b))
            made += [self.equal(a, b)] if self.chance(0.25) else []
            made += self.band(a, b) if self.chance(0.2) else []
        elif shape < 0.95:
            made += self.band(a, b)
        made += [self.filter(a, b)] if self.chance(0.3) or not made else []
        made += [self.random.choice(("true", "1 = 0"))] if self.chance(0.01) else []
        self.random.shuffle(made)
        return made

    def subquery(self, a):
        """A condition with a subquery, on the relation `a`."""
        random, inner = self.random, self.relation("z")
        kind = random.choice(("EXISTS", "EXISTS", "NOT EXISTS", "NOT EXISTS", "IN", "NOT IN", "NOT IN", "scalar"))
        if kind == "scalar":
            of = random.choice(("max(z.v)", "count(*)", "min(z.id)"))
            return f"{a}.v {random.choice(COMPARISONS)} (SELECT {of} FROM {inner.sql()} WHERE {a}.k0 = z.k0)"
        if kind.endswith("EXISTS"):
            return f"{kind} (SELECT 1 FROM {inner.sql()} WHERE {' AND '.join(self.conditions(a, 'z'))})"
        key = random.choice((*KEYS, "v", "s"))
        where = [self.single("z")] if self.chance(0.3) else []
        where += [self.equal(a, "z")] if self.chance(0.25) else []
        where += [f"z.{key} IS NOT NULL"] if self.chance(0.3) else []
        within = f" WHERE {' AND '.join(where)}" if where else ""
        return f"{a}.{key} {kind} (SELECT z.{key} FROM {inner.sql()}{within})"

    def where(self, aliases):
        made, random = [], self.random
        if self.chance(0.2):
            made.append(self.single(random.choice(aliases)))
        if len(aliases) > 1 and self.chance(0.15):
            made.append(self.filter(*random.sample(aliases, 2)))
        if self.chance(0.45 if len(aliases) < 3 else 0.15):
            of = random.choice(aliases)
            condition = self.subquery(of)
            # Beside an OR, a subquery marks rows.
            made.append(f"({condition} OR {self.single(of)})" if self.chance(0.3) else condition)
        return made

    def body(self, joins):
        """A query of this many joins, without columns."""
        random = self.random
        aliases, made = ["a"], []
        source = self.relation("a")
        for alias in "bcde"[:joins]:
            rare = "CROSS" if self.chance(0.3) and self.schema.size != LARGE else "INNER"
            kind = random.choice(("INNER", "INNER", "LEFT", "LEFT", "RIGHT", "FULL", "FULL", rare))
            made.append(Join(kind, self.relation(alias), self.conditions(random.choice(aliases), alias)))
            aliases.append(alias)
        return Query([], source, made, self.where(aliases)), aliases

    def columns(self, aliases, of=COLUMNS):
        return [f"{alias}.{name}" for alias in aliases for name in of]

    def query(self, joins):
        """A query with this many joins, at most four."""
        random = self.random
        made, aliases = self.body(joins)
        shape = random.random()
        if shape < 0.2:
            made.select = self.aggregates(aliases)
        elif shape < 0.4:
            names = [name for name in ("k0", "k1", "v", "s") if name not in self.floats()]
            made.group = random.sample(self.columns(aliases, names), random.randint(1, 2))
            made.select = made.group + self.aggregates(aliases)
        else:
            every = self.columns(aliases)
            made.select = random.sample(every, random.randint(1, len(every)))
            made.distinct = self.chance(0.1) and not self.has_floats(made.select)
        if made.group == [] and shape >= 0.4 and self.chance(0.1):
            other, _ = self.body(0)
            made.select = [f"a.{name}" for name in random.sample(COLUMNS, 3)]
            made.union = other.copy(select=list(made.select))
        if self.chance(0.25) and not self.has_floats(made.select):
            # Tables may be sorted by these columns.
            first = [text for text in made.select if text.endswith((".id", ".v"))]
            if made.union is None and first and self.chance(0.5):
                made.select = first + [text for text in made.select if text not in first]
            ways = ("ASC NULLS LAST", "ASC NULLS FIRST", "DESC NULLS LAST", "DESC NULLS FIRST")
            made.order = [random.choice(ways) for _ in made.select]
        if self.chance(0.5 if made.order else 0.1):
            made.limit = random.choice((0, 1, 3, 10, 100, 5000))
            made.offset = random.choice((0, 0, 1, 7)) if made.order else 0
        return made

    def floats(self):
        """The columns in which there are floats. Their zeros of both signs are sorted and grouped in different ways."""
        found = [name for name in KEYS if self.schema.families[name].name == "float"]
        return found + (["x", "y"] if self.schema.families["x"].name == "float" else [])

    def has_floats(self, select):
        return any(text.endswith(f".{name}") for text in select for name in self.floats())

    def aggregates(self, aliases):
        of = [f"count({alias}.{name})" for alias in aliases for name in ("k0", "x")]
        of += [f"{call}({alias}.{name})" for call in ("min", "max", "sum", "count") for alias in aliases for name in ("id", "v")]
        of += [f"count(DISTINCT {alias}.s)" for alias in aliases]
        return ["count(*)", *self.random.sample(of, self.random.randint(1, 4))]
