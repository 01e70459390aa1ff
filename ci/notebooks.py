#!/usr/bin/env python3
"""Runs the notebooks of the Python package, and writes them with their results as pages: notebooks.py FOLDER OUTPUT."""

import sys
import tempfile
from pathlib import Path

import nbclient
import nbconvert
import nbformat

SECONDS = 120


def main(folder: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    exporter = nbconvert.HTMLExporter(template_name="classic")
    for path in sorted(folder.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        if any(cell.get("outputs") for cell in notebook.cells):
            raise SystemExit(f"{path} has results: clear them, they are made here")
        with tempfile.TemporaryDirectory() as elsewhere:
            client = nbclient.NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": elsewhere}})
            client.execute()
        page, _ = exporter.from_notebook_node(notebook, resources={"metadata": {"name": path.stem}})
        (output / f"{path.stem}.html").write_text(page)
        print(f"{path.name}: {sum(len(cell.get('outputs', [])) for cell in notebook.cells)} results")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
