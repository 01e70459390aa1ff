"""Makes a failing case smaller while it fails in the same way, and prints it as commands to type."""

import base64

import pyarrow

import writers
from judge import FAILED
from writers import ANNULUS, DUCKDB, ENDINGS, POLARS, PYARROW

ATTEMPTS = 200


def with_rows(case, rows):
    """The case with some of its rows, whose ids are new."""
    values = {name: [column[row] for row in rows] for name, column in case.values.items()}
    return case.copy(values=values | {"id": list(range(len(rows)))})


def without(items, name):
    return {one: value for one, value in items.items() if one != name}


def variants(case):
    count = len(case.values["id"])
    part = count
    while part:
        for start in range(0, count, part):
            yield with_rows(case, [row for row in range(count) if not start <= row < start + part])
        part //= 2
    for name in case.kinds:
        if name not in ("id", case.key) and len(case.kinds) > 2:
            yield case.copy(kinds=without(case.kinds, name), values=without(case.values, name))
    for name in case.settings:
        yield case.copy(settings=without(case.settings, name))
    for way in case.ways:
        yield case.copy(ways=tuple(one for one in case.ways if one != way))
    if case.layout == "several":
        yield case.copy(layout="one", ways=tuple(way for way in case.ways if way != "glob"))
        if case.files > 1:
            yield case.copy(files=case.files - 1)


def shrink(judge, case, verdict):
    """The smallest case found in which the same one fails, and its verdict."""
    reader = verdict.failures[0][0]
    left, progress = ATTEMPTS, True
    while progress and left:
        progress = False
        for variant in variants(case):
            left -= 1
            tried = judge.judge(variant)
            if tried.word == FAILED and any(who == reader for who, _ in tried.failures):
                case, verdict, progress = variant, tried, True
                break
            if not left:
                break
    return case, verdict


def stored(rows):
    """An expression of Python for a table."""
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    text = base64.b64encode(sink.getvalue().to_pybytes()).decode()
    return f"pyarrow.ipc.open_stream(base64.b64decode('{text}')).read_all()"


def python_of(case, path):
    """Statements of Python that write the file of a case, or what Annulus makes it of."""
    if case.form in ("csv", "json") and case.writer != ANNULUS and path.is_file():
        return f"open('{path.name}', 'w', newline='').write({path.read_text()!r})"
    given = "".join(f", {key}={value!r}" for key, value in case.settings.items())
    options = "".join(f", {key} {writers.option(value)}" for key, value in case.settings.items())
    name, polars = f"one.{ENDINGS[case.form]}", {"json": "ndjson", "arrow": "ipc", "stream": "ipc_stream"}.get(case.form, case.form)
    call = {
        PYARROW: f"import pyarrow.parquet; pyarrow.parquet.write_table(rows, '{name}'{given})",
        DUCKDB: f"import duckdb; duckdb.sql(\"COPY (FROM rows) TO '{name}' (FORMAT {case.form}{options})\")",
        POLARS: f"import polars; polars.from_arrow(rows).write_{polars}('{name}'{given})",
    }.get(case.writer, f"# written by {case.writer} as {case.form} with {case.settings}")
    if case.writer == ANNULUS or (case.writer, case.form) == (PYARROW, "arrow"):
        name = "base.arrow" if case.writer == ANNULUS else name
        call = f"import pyarrow.feather; pyarrow.feather.write_feather(rows, '{name}', compression='uncompressed')"
    return f"import base64, pyarrow\nrows = {stored(case.table())}\n{call}"


def commands(case, reader):
    """The commands of Annulus that write and read the files, as far as they are simple."""
    if case.writer == ANNULUS and case.layout == "one":
        given = ", ".join(f"'{name}' '{value}'" for name, value in case.settings.items())
        options = f" OPTIONS ({given})" if given else ""
        yield f"annulus sql \"COPY (SELECT * FROM 'base.arrow') TO 'one.{case.ending}'{options}\""
    name = f"one.{case.ending}"
    if case.layout in ("value", "split"):
        by = "--by-value" if case.key else f"--into {case.files}"
        yield f"annulus partition base.arrow --by {case.key or 'id'} {by} --format {case.form} --output {case.layout}"
        name = case.layout
    if reader == "annulus from" and case.layout in ("one", "value", "split"):
        yield f"annulus sql \"SELECT * FROM '{name}'\""


def report(case, verdict, seed, path):
    """A failing case: how to see it again, its rows, and what failed."""
    shown = range(min(6, len(case.values["id"])))
    rows = ["#   " + ", ".join(f"{name}={values[row]!r}" for name, values in case.values.items()) for row in shown]
    lines = [f"# FAILED: bench/fuzz/roundtrip/run --seed {seed} --case {case.name}", f"# {case.describe()}", *rows,
             "python - <<'PY'", python_of(case, path), "PY"]
    lines += commands(case, verdict.failures[0][0])
    for reader, text in verdict.failures[:4]:
        lines.append(f"# {reader}: {text}"[:1500])
    return "\n".join(lines)
