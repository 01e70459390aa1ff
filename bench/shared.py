"""What the benchmarks against other engines share: their packages, the program to measure, and medians."""

import functools
import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "annulus"
DUCKDB = "duckdb==2.0.1"
POLARS = "polars==2.1.0"
DATAFUSION = "datafusion==55.0.0"
PYARROW = "pyarrow"

# Exits with 0 if all of its arguments are installed: names, or names with versions.
INSTALLED = """
import importlib.metadata, sys
for package in sys.argv[1:]:
    name, _, version = package.split("[")[0].partition("==")
    assert version in ("", importlib.metadata.version(name))
"""


@functools.cache
def ds_queries():
    """The folder of the queries of TPC-DS, which bench/tpcds/queries makes."""
    folder = CACHE / "tpcds" / "queries"
    if not folder.is_dir():
        subprocess.run([Path(__file__).with_name("tpcds") / "queries", folder], check=True)
    return folder


def python(*packages, home="bench-venv"):
    """The interpreter of a virtual environment in the cache folder, with these packages installed."""
    interpreter = CACHE / home / "bin" / "python"
    if not interpreter.exists():
        venv.create(CACHE / home, with_pip=True)
    check = [interpreter, "-c", INSTALLED, *packages]
    if subprocess.run(check, stderr=subprocess.DEVNULL).returncode != 0:
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", *packages], check=True)
    return str(interpreter)


def within(*packages, home="bench-venv"):
    """Runs this script again with the interpreter that has these packages, unless it is running already."""
    interpreter = python(*packages, home=home)
    if Path(sys.prefix) != Path(interpreter).parents[1]:
        os.execv(interpreter, [interpreter, *sys.argv])


def built(package, features=(), binary="annulus"):
    """A program of the workspace, built for release."""
    chosen = ["--features", ",".join(features)] if features else []
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", package, *chosen], check=True, cwd=ROOT)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str(target / "release" / binary)


def tested():
    """The program that the tests have built: where `ci/env.sh` has them built, if no other folder is set."""
    return Path(os.environ.get("CARGO_TARGET_DIR", CACHE / "target")) / "debug" / "annulus"


def spread(values):
    """The interquartile range, divided by the median."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle


def quiet(folder):
    """Sends the standard error of this process to a file: Polars prints there when it panics."""
    os.environ["RUST_BACKTRACE"] = "0"
    file = os.open(folder / "errors", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 2)
    os.close(file)
