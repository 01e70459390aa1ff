"""The ways in which Annulus writes the rows of a case and reads its files."""

import random as randoms
import shutil

import pyarrow

import annulus
import checks
import model
from writers import ENDINGS, write_pyarrow

STORED = {"parquet": "PARQUET", "arrow": "ARROW", "csv": "CSV", "json": "JSON", "avro": "AVRO"}
# Hash, ranges of sampled split points, value, groups of keys, and in turn.
PLACEMENTS = {
    "hash": ("--into", 3),
    "ranges": ("--into", 3, "--ranges", "sample"),
    "value": ("--by-value",),
    "groups": ("--into", 2, "--key-groups", 8),
}


class Annulus:
    """Annulus in a folder of its own. One thread uses it. `plant` alters what it returns."""

    def __init__(self, program, folder, plant=None):
        self.program, self.folder, self.plant = program, folder, plant
        self.shell = annulus.Shell(program, folder)
        self.answer = folder / "answer.arrow"

    def end(self):
        self.shell.end()

    def query(self, query, check=None):
        """The rows of a query in the shell."""
        return self.altered(self.shell.table(query, self.answer), check)

    def altered(self, table, check=None):
        return self.plant(table, check) if self.plant else table

    def command(self, *arguments, stdin=None):
        annulus.command(self.program, self.folder, *arguments, stdin=stdin)

    def base(self, rows, folder):
        """The rows as a file of PyArrow."""
        path = folder / "base.arrow"
        if not path.exists():
            write_pyarrow(rows, "arrow", path, {})
        return path

    def write(self, case, rows, folder):
        """Writes the files of a case, and returns the file or folder."""
        base, ending = self.base(rows, folder), ENDINGS[case.form]
        given = ", ".join(f"'{name}' '{value}'" for name, value in case.settings.items())
        options = f"STORED AS {STORED[case.form]}" + (f" OPTIONS ({given})" if given else "")
        if case.layout in ("split", "value"):
            path = folder / case.layout
            by = ("--by", case.key, "--by-value") if case.key else ("--by", next(iter(case.kinds)), "--into", case.files)
            self.command("partition", base, *by, "--format", case.form, "--output", path)
            return path
        if case.layout == "folders":
            path = folder / "folders"
            by = f'STORED AS PARQUET PARTITIONED BY ({case.key}){options.removeprefix("STORED AS PARQUET")}'
            self.shell.run(f"COPY (SELECT * FROM '{base}') TO '{path}/' {by};")
            return path
        if case.layout == "one":
            path = folder / f"one.{ending}"
            self.shell.run(f"COPY (SELECT * FROM '{base}') TO '{path}' {options};")
            return path
        path = folder / "several"
        path.mkdir()
        parts = [f"COPY (SELECT * FROM '{base}' WHERE id % {case.files} = {part}) TO '{path}/part-{part}.{ending}' {options};"
                 for part in range(case.files)]
        self.shell.run("\n".join(parts))
        return path

    def read(self, way, case, path, rows):
        """The rows that Annulus finds in the files of a case."""
        if way == "from":
            return self.query(f"SELECT * FROM '{path}{'/' if path.is_dir() else ''}'")
        if way == "glob":
            return self.query(f"SELECT * FROM '{path}/part-*.{case.ending}'")
        if way == "external":
            return self.external(case, path)
        if way in ("table", "output", "stdin", "types", "texts"):
            return self.in_process(way, case, path)
        if way == "join":
            return self.join(case, path, rows)
        return self.partition(way.removeprefix("partition "), case, path)

    def external(self, case, path):
        place = f"{path}/" if path.is_dir() else path
        by = f" PARTITIONED BY ({case.key})" if case.has_folders else ""
        options = f" OPTIONS ('format.delimiter' '{delimiter(case)}')" if case.form == "csv" and delimiter(case) != "," else ""
        try:
            self.shell.run(f"CREATE EXTERNAL TABLE e STORED AS {STORED[case.form]}{by} LOCATION '{place}'{options};")
            return self.query("SELECT * FROM e")
        finally:
            self.shell.run("DROP TABLE IF EXISTS e;")

    def in_process(self, way, case, path):
        """Reads in a process of its own, which has the table's name, or the file on standard input."""
        self.answer.unlink(missing_ok=True)
        if way == "stdin":
            with open(path, "rb") as file:
                self.command("sql", "--output", self.answer, "SELECT * FROM '/dev/stdin'", stdin=file)
        elif way in ("types", "texts"):
            typed = ",".join(f"{name}={given_type(kind)}" for name, kind in case.kinds.items())
            given = ("--types", typed) if way == "types" else ("--read", "all_text")
            self.command("sql", "-t", f"t={path}", *given, "--output", self.answer, "SELECT * FROM t")
        elif way == "table":
            self.command("sql", "-t", f"t={path}", "--output", self.answer, "SELECT * FROM t")
        else:
            self.command("sql", "--output", self.answer, f"SELECT * FROM '{path}'")
        return self.altered(annulus.arrow(self.answer))

    def dataset(self, name):
        """The rows of a dataset that a command has written."""
        path = self.folder / name
        try:
            return self.query(f"SELECT * FROM '{path}'")
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def partition(self, placement, case, path):
        random = randoms.Random(case.luck)
        shutil.rmtree(self.folder / "split", ignore_errors=True)
        if placement == "stdin":
            with open(path, "rb") as file:
                self.command("partition", "-", "--round-robin", "--into", 2, "--output", "split", stdin=file)
            return self.dataset("split")
        by = random.choice([name for name in case.kinds if name != "id"])
        placement, form = placement.split()
        self.command("partition", path, "--by", by, *PLACEMENTS[placement], "--format", form, "--overwrite", "--output", "split")
        return self.dataset("split")

    def join(self, case, path, rows):
        """Joins the files with a file of their ids, in a command."""
        ids = self.folder / "ids.arrow"
        write_pyarrow(pyarrow.table({"id": pyarrow.array(case.values["id"], pyarrow.int64())}), "arrow", ids, {})
        shutil.rmtree(self.folder / "joined", ignore_errors=True)
        self.command("join", f"l={path}", f"r={ids}", "--on", "id", "--select", "l.*", "--output", "joined")
        return self.dataset("joined")


def given_type(kind):
    """The name of a type for --types."""
    return "text" if model.is_text(kind) else checks.arrow_name(kind)


def delimiter(case):
    given = case.settings
    return given.get("delimiter") or given.get("DELIMITER") or given.get("separator") or ","


