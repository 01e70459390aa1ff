"""The types of columns, their values, and how SQL writes these."""

import math
import string
import struct
import uuid
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow

NUMBER, FLOAT, TEXT, BYTES, TIME, TRUTH, NESTED = "number", "float", "text", "bytes", "time", "truth", "nested"
UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
# Nanoseconds of a unit.
LENGTHS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
DAY_S = 86_400


@dataclass(frozen=True)
class Kind:
    """A type of a column."""

    name: str
    family: str
    arrow: pyarrow.DataType
    # Returns a random value, from a source of random numbers.
    value: object
    # Returns a value in SQL, or None for types without constants.
    literal: object = None
    # The type in DataFusion's words, as which parquet-rs writes the column.
    cast: str | None = None
    # What DuckDB writes, with {} for the column.
    duckdb: str = "{}"


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def cast(value, name):
    return f"arrow_cast({value}, '{name}')"


def integer(bits, is_signed):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    hard = [low, high, low + 1, high - 1, 0, 1, max(low, -1), high // 2]

    def value(source):
        if source.random() < 0.2:
            return source.choice(hard)
        span = source.choice((10, 100, 5000, high))
        return source.randint(max(low, -span), min(high, span))

    name = f"{'' if is_signed else 'u'}int{bits}"
    label = f"{'' if is_signed else 'U'}Int{bits}"
    return Kind(name, NUMBER, getattr(pyarrow, name)(), value, str, label)


def float_value(bits):
    form = {16: "<e", 32: "<f", 64: "<d"}[bits]
    hard = [math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0]

    def value(source):
        if source.random() < 0.3:
            return source.choice(hard)
        number = source.choice((source.randint(-9, 9) / 4, source.gauss(0, 1), source.uniform(-6e4, 6e4)))
        return struct.unpack(form, struct.pack(form, number))[0]

    return value


def floating(bits):
    def literal(value):
        text = f"'{'NaN' if math.isnan(value) else value}'"
        return cast(cast(text, "Float32"), "Float16") if bits == 16 else cast(text, f"Float{bits}")

    arrow = {16: pyarrow.float16(), 32: pyarrow.float32(), 64: pyarrow.float64()}[bits]
    return Kind(f"float{bits}", FLOAT, arrow, float_value(bits), literal, f"Float{bits}")


def decimal(width, precision, scale):
    label = f"Decimal{width}({precision}, {scale})"

    def value(source):
        digits = source.choice((1, precision, source.randint(1, precision)))
        return Decimal((source.randint(0, 1), tuple(source.randint(0, 9) for _ in range(digits)), -scale))

    arrow = getattr(pyarrow, f"decimal{width}")(precision, scale)
    name = f"decimal{width}({precision},{scale})"
    return Kind(name, NUMBER, arrow, value, lambda value: cast(quoted(f"{value:f}"), label), label)


def counted(name, arrow, label, low, high, step=1, base="Int64"):
    """A type of time, whose values are integers."""
    def value(source):
        if source.random() < 0.2:
            return source.choice((low, high, 0, step))
        span = source.choice((10 * step, 5000 * step, high))
        return source.randint(max(low, -span), min(high, span)) // step * step

    return Kind(name, TIME, arrow, value, lambda value: cast(cast(value, base), label), label)


def timestamp(unit, zone):
    said = f'Some("{zone}")' if zone else "None"
    high = min(2**62, 250_000 * DAY_S * 10**9) // LENGTHS[unit] if unit == "ns" else 250_000 * DAY_S * 10**9 // LENGTHS[unit]
    name = f"timestamp[{unit}{', ' + zone if zone else ''}]"
    return counted(name, pyarrow.timestamp(unit, zone), f"Timestamp({UNITS[unit]}, {said})", -high // 5, high, 1)


def time(unit):
    bits = 32 if unit in ("s", "ms") else 64
    high = DAY_S * 10**9 // LENGTHS[unit] - 1
    arrow = (pyarrow.time32 if bits == 32 else pyarrow.time64)(unit)
    return counted(f"time[{unit}]", arrow, f"Time{bits}({UNITS[unit]})", 0, high, base=f"Int{bits}")


def duration(unit):
    return counted(f"duration[{unit}]", pyarrow.duration(unit), f"Duration({UNITS[unit]})", -(2**52), 2**52)


HARD_TEXTS = ("", "a", "A", "b", "ß", "日本語", "%", "_", "it's", "\\", "a\nb", "😀", "\x00", "zzzzzzzzzzzz", "zzzzzzzzzzzzz",
              "prefix-", "PREFIX-1", " ", "0", "12", "-3.5", "true", "x" * 127, "x" * 128, "ßx" * 200, "null")


def text_value(source):
    choice = source.random()
    if choice < 0.3:
        return source.choice(HARD_TEXTS)
    if choice < 0.7:
        return f"prefix-{source.randint(0, 500)}{'-suffix' * source.randint(0, 2)}"
    return "".join(source.choices(string.ascii_letters + "äöü€", k=source.choice((1, 3, 12, 13, 40))))


def text(name, arrow, label):
    return Kind(name, TEXT, arrow, text_value, quoted, label)


def bytes_value(source):
    if source.random() < 0.5:
        return text_value(source).encode()
    return source.randbytes(source.choice((0, 1, 4, 12, 13, 60)))


def hexadecimal(value):
    return f"X'{value.hex()}'"


def binary(name, arrow, label):
    return Kind(name, BYTES, arrow, bytes_value, hexadecimal, label)


def fixed(length):
    label = f"FixedSizeBinary({length})"

    def value(source):
        return source.choice((bytes(length), b"\xff" * length, bytes([source.randint(0, 20)]) * length, source.randbytes(length)))

    return Kind(f"fixed[{length}]", BYTES, pyarrow.binary(length), value, lambda value: cast(hexadecimal(value), label), label)


def uuid_value(source):
    return uuid.UUID(int=source.choice((0, 1, 2**128 - 1, source.getrandbits(128)))).bytes


def of_values(value, most):
    return lambda source: [value(source) for _ in range(source.randint(0, most))]


def small(source):
    return source.randint(-50, 50)


def scalars():
    yield Kind("bool", TRUTH, pyarrow.bool_(), lambda source: source.random() < 0.5, lambda value: str(value).lower(), "Boolean")
    for bits in (8, 16, 32, 64):
        yield integer(bits, True)
        yield integer(bits, False)
    for bits in (16, 32, 64):
        yield floating(bits)
    for shape in ((32, 9, 2), (64, 18, 4), (128, 1, 0), (128, 9, 2), (128, 18, 4), (128, 19, 0), (128, 38, 10), (256, 9, 1), (256, 18, 1),
                  (256, 38, 3), (256, 50, 5), (256, 76, 0)):
        yield decimal(*shape)
    yield counted("date32", pyarrow.date32(), "Date32", -50_000, 90_000, base="Int32")
    milliseconds = DAY_S * 1000
    yield counted("date64", pyarrow.date64(), "Date64", -50_000 * milliseconds, 90_000 * milliseconds, milliseconds)
    for unit in UNITS:
        yield time(unit)
        yield duration(unit)
        for zone in (None, "UTC", "Europe/Berlin"):
            yield timestamp(unit, zone)
    yield text("string", pyarrow.string(), "Utf8")
    yield text("large_string", pyarrow.large_string(), "LargeUtf8")
    yield text("string_view", pyarrow.string_view(), "Utf8View")
    yield binary("binary", pyarrow.binary(), "Binary")
    yield binary("large_binary", pyarrow.large_binary(), "LargeBinary")
    yield binary("binary_view", pyarrow.binary_view(), "BinaryView")
    for length in (1, 4, 16, 17):
        yield fixed(length)


def others():
    """Types that are left to DataFusion's scan, or that some writers only have."""
    whole = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    yield Kind("dictionary[string]", TEXT, whole, text_value, quoted, "Dictionary(Int32, Utf8)")
    numbers = pyarrow.dictionary(pyarrow.int8(), pyarrow.int64())
    yield Kind("dictionary[int64]", NUMBER, numbers, small, str, "Dictionary(Int8, Int64)")
    yield Kind("uuid", BYTES, pyarrow.uuid(), uuid_value, lambda value: cast(hexadecimal(value), "FixedSizeBinary(16)"))
    yield Kind("null", NESTED, pyarrow.null(), lambda source: None)
    yield Kind("list", NESTED, pyarrow.list_(pyarrow.int32()), of_values(small, 3))
    fields = [("a", pyarrow.int32()), ("b", pyarrow.string())]
    yield Kind("struct", NESTED, pyarrow.struct(fields), lambda source: {"a": small(source), "b": text_value(source)})
    pairs = pyarrow.map_(pyarrow.string(), pyarrow.int64())
    yield Kind("map", NESTED, pairs, lambda source: list({text_value(source): small(source) for _ in range(source.randint(0, 3))}.items()))
    yield Kind("hugeint", FLOAT, pyarrow.int64(), small, str, None, "CAST({} AS HUGEINT)")
    yield Kind("time_tz", NESTED, pyarrow.time64("us"), time("us").value, None, None, "CAST({} AS TIMETZ)")
    yield Kind("bit", NESTED, pyarrow.int32(), lambda source: source.randint(0, 99), None, None, "CAST({} AS BIT)")


def as_read(kind, arrow):
    """A type of times as it is written in SQL if it is read as another one."""
    if kind.family == TIME and pyarrow.types.is_integer(arrow):
        return replace(kind, name="int64", family=NUMBER, literal=str)
    return kind


# Written by DuckDB alone, as a conversion of another type.
CONVERTED = ("hugeint", "time_tz", "bit")
SCALARS = {kind.name: kind for kind in scalars()}
KINDS = SCALARS | {kind.name: kind for kind in others()}
