"""Differences that are known: of the software that writes or reads, or of a format. Each has its reason and whose it is.

A difference that no entry explains fails. Versions are those that `run` installs; `findings/` has scripts for some of them.
"""

import json
from dataclasses import dataclass

import model
import spelling
from model import DAY_NS, is_nan, types
from writers import ANNULUS, DUCKDB, POLARS, PYARROW, PYTHON


@dataclass(frozen=True)
class Known:
    # What it is.
    reason: str
    # Whose it is, with its version.
    whose: str
    # Whether an entry explains a difference of a case.
    explains: object


def is_ours(difference):
    return difference.reader.startswith("annulus")


def has_written(difference):
    """Whether Annulus has read a dataset that its commands have written."""
    return difference.reader.startswith(("annulus partition", "annulus join"))


def is_key(case, one):
    """Whether the names of folders are the values of a column."""
    return case.has_folders and one.column == case.key


def has_backslash(case):
    return case.has_folders and any("\\" in str(value) for value in case.values[case.key])


def parquet(case):
    return case.form == "parquet"


def time_of_text(written, found):
    """The nanoseconds between a time with a zone and one that is read or that a text says."""
    if isinstance(found, str):
        read = spelling.parse_instant(found)
        return abs(read[0] - written[1]) if read else None
    return abs(found[1] - written[1]) if isinstance(found, tuple) and found[0] in "tz" else None


def local_mean_time(case, one):
    """Before zones were of whole minutes."""
    if case.form not in ("csv", "json") or not types.is_timestamp(one.kind) or one.kind.tz is None or one.written is None:
        return False
    off = time_of_text(one.written, one.found)
    return case.writer in (POLARS, PYARROW) and one.written[1] < 0 and off is not None and off < 60 * 10**9


def cut_to_microseconds(one):
    """Whether a time has lost its nanoseconds."""
    both = isinstance(one.written, tuple) and isinstance(one.found, tuple) and one.written[0] in "tzc"
    return both and one.found[0] in "tzc" and 0 <= one.written[1] - one.found[1] < 1000


def is_raw_count(one):
    """Whether a duration is the integer that it is stored as. Parquet has no such type."""
    if not types.is_duration(one.kind) or not isinstance(one.found, int):
        return False
    number = one.written[1] // model.UNITS[one.kind.unit]
    # Polars has milliseconds for seconds, and multiplies without a check.
    return one.found in (number, wrapped(number * 1000, 64))


def wrapped(number, bits):
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def seconds_wrap(one):
    if not types.is_duration(one.kind) or one.kind.unit != "s" or not isinstance(one.found, tuple):
        return False
    return one.found == ("u", wrapped(one.written[1] // 10**9 * 1000, 64) * 10**6)


def int96(case, one):
    """Times of 96 bits are nanoseconds since 1970 without a zone."""
    has_them = case.settings.get("use_deprecated_int96_timestamps") and types.is_timestamp(one.kind)
    if not has_them or not isinstance(one.found, tuple):
        return False
    nanoseconds = one.written[1]
    reader, found = one.reader, one.found[1]
    if found == nanoseconds or (reader == DUCKDB or is_ours(one)) and 0 <= nanoseconds - found < 1000:
        return True
    is_far = not -(2**63) <= nanoseconds < 2**63
    return is_far and (reader == PYARROW and found == wrapped(nanoseconds, 64) or reader == POLARS and abs(found) >= 2**63 - 1)


def no_files(case, one):
    """No file is written for zero rows in folders by value, or in partitions."""
    return case.layout in ("folders", "value", "split") and not case.values["id"] and one.written == "a column"


def text_of_json(case, one):
    """Numbers and texts in one key: the column is JSON, and a text has its quotes."""
    if case.form != "json" or case.writer not in (PYTHON, ANNULUS) or one.reader != DUCKDB or not isinstance(one.found, str):
        return False
    try:
        return spelling.same_read(one.kind, one.written, json.loads(one.found))
    except ValueError:
        return False


def endless_date(case, one):
    """The texts of infinite floats alone in a key: dates without an end."""
    is_infinite = isinstance(one.written, float) and abs(one.written) == float("inf")
    return case.form == "json" and one.reader == DUCKDB and is_infinite and one.found in (("d", 2**31 - 1), ("d", 1 - 2**31))


def years_before_christ(case, one):
    is_text = case.form in ("csv", "json") or one.column == case.key
    return case.writer == DUCKDB and is_text and isinstance(one.found, str) and "(BC)" in one.found


def date_as_time(one):
    if not types.is_date64(one.kind) or not isinstance(one.written, tuple) or one.written[0] != "d":
        return False
    return one.found == ("t", one.written[1] * DAY_NS)


def is_number_of_text(case, one):
    """Whether a folder's name was taken for a number in another spelling."""
    if is_key(case, one) and one.reader == DUCKDB and one.written == "inf" and one.found == ("d", 2**31 - 1):
        return True
    return (is_key(case, one) and not is_ours(one) and isinstance(one.written, str)
            and isinstance(one.found, (int, float)) and (one.written[:2] == "0x" or spelling.number_of(one.written) is not None))


def has_bare_words(case, one):
    """An object or list with numbers that JSON does not have stays the text that it is, and what types are inferred from is not
    the rest of its line."""
    of_duckdb = case.writer == DUCKDB and case.form == "json" and types.is_nested(one.kind)
    nested = [value for column, kind in case.kinds.items() if types.is_nested(kind) for value in case.values[column]]
    return of_duckdb and isinstance(one.found, str) and one.found[:1] in "{[" and any(map(holds_bare_word, nested))


def holds_bare_word(value):
    if isinstance(value, tuple) and value[0] in "sl":
        return any(holds_bare_word(part[1] if value[0] == "s" else part) for part in value[1:])
    return is_nan(value) or isinstance(value, float) and abs(value) == float("inf")


def index_in_dictionary(case, one):
    """An integer for a text of a dictionary, within an array of structs that DuckDB took from Arrow."""
    return case.writer == DUCKDB and isinstance(one.written, str) and isinstance(one.found, int) and any(
        types.is_fixed_size_list(kind) and "dictionary" in str(kind) for kind in case.kinds.values())


def has_text_of_null(case):
    return case.has_folders and {None, "__HIVE_DEFAULT_PARTITION__"} <= set(case.values[case.key])


def null_of_folder(case, one):
    return (is_key(case, one) and one.found is None
            and one.written in ("__HIVE_DEFAULT_PARTITION__", *(("NULL", "null") if one.reader == DUCKDB else ())))


DUCKDB_2, POLARS_2, PYARROW_26, PARQUET = "DuckDB 2.0.1", "Polars 2.1.0", "PyArrow 26.0.1", "the format"

ENTRIES = (
    Known("DuckDB writes years before 1 of dates and times to CSV, JSON and names of folders as (BC)", DUCKDB_2, years_before_christ),
    Known("DuckDB's read_json infers a double for decimals of any number of digits", DUCKDB_2,
          lambda case, one: case.form == "json" and one.reader == DUCKDB and types.is_decimal(one.kind) and isinstance(one.found, float)),
    Known("DuckDB's read_json cuts times to microseconds", DUCKDB_2,
          lambda case, one: case.form == "json" and one.reader == DUCKDB and cut_to_microseconds(one)),
    Known("DuckDB's read_json makes a JSON column, with quotes, of a key that has numbers and texts", DUCKDB_2, text_of_json),
    Known("DuckDB's read_json takes the texts Infinity and -Infinity for dates without an end", DUCKDB_2, endless_date),
    Known("DuckDB writes all NaN of a dictionary page with the bits of the first", DUCKDB_2,
          lambda case, one: case.writer == DUCKDB and parquet(case) and is_nan(one.written) and is_nan(one.found)),
    Known("DuckDB reads decimals of more than 38 digits as doubles", DUCKDB_2,
          lambda case, one: one.reader == DUCKDB and types.is_decimal256(one.kind) and isinstance(one.found, float)),
    Known("a Parquet duration is an integer without the schema of Arrow, which DuckDB does not read", PARQUET,
          lambda case, one: parquet(case) and is_raw_count(one)),
    Known("DuckDB takes a backslash in a folder's name for an escape, and reads another folder twice", DUCKDB_2,
          lambda case, one: one.reader == DUCKDB and one.column == "id" and has_backslash(case)),
    Known("Polars has times of milliseconds for dates of milliseconds", POLARS_2,
          lambda case, one: POLARS in (case.writer, one.reader) and date_as_time(one)),
    Known("Annulus writes dates of milliseconds to Parquet as times of milliseconds (docs/outputs.md)", "Parquet has no such type",
          lambda case, one: (case.writer == ANNULUS and parquet(case) or has_written(one)) and date_as_time(one)),
    Known("Annulus writes NaN to a dataset of CSV or JSON as a text without its bits", "the format",
          lambda case, one: one.reader.startswith("annulus") and one.reader.endswith((" csv", " json")) and is_nan(one.written) and is_nan(one.found)),
    Known("Polars multiplies durations of seconds by 1000 without a check", POLARS_2,
          lambda case, one: POLARS in (case.writer, one.reader) and seconds_wrap(one)),
    Known("DuckDB writes NaN and Infinity without quotes, which is not JSON: a value that contains them is a text", DUCKDB_2, has_bare_words),
    Known("DuckDB reads dictionaries within structs of fixed-size lists of Arrow as integers", DUCKDB_2, index_in_dictionary),
    Known("Polars writes null and the text of Hive's null to one file, and the last one stays", POLARS_2,
          lambda case, one: case.writer == POLARS and one.column == "id" and has_text_of_null(case)),
    Known("Polars names the folder of an empty text k=, which it reads as null", POLARS_2,
          lambda case, one: is_key(case, one) and one.reader == POLARS and one.written == "" and one.found is None),
    Known("offsets of zones are written to text without their seconds (local mean time, before zones had whole minutes)",
          f"{POLARS_2}, {PYARROW_26}", local_mean_time),
    Known("times of 96 bits have no zone; DuckDB and Annulus read microseconds (docs/inputs.md), others no years beyond 1677 and 2262", PARQUET, int96),
    Known("no file is written for zero rows in folders by value or in partitions", PARQUET, no_files),
    Known("the name of a folder is taken for a number, or inf for a date without an end", f"{DUCKDB_2}, {POLARS_2}, {PYARROW_26}", is_number_of_text),
    Known("the text of Hive's null names the folder of nulls", PARQUET, null_of_folder),
)


def entry(case, difference):
    """The entry that explains a difference, or None."""
    return next((one for one in ENTRIES if one.explains(case, difference)), None)
