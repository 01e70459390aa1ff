"""Values as Python knows them, and Arrow arrays built from them and read into them.

A value is None, a number, a text, bytes or a tuple that begins with a letter for its family: ("b", truth), ("f", bits of a NaN or
of -0.0), ("d", days), ("t", ns) for a time without a zone, ("z", ns) for one with a zone, ("c", ns of a clock), ("u", ns of a
duration), ("i", months, days, ns), ("l", items...), ("s", (name, value)...) and ("m", (key, value)...). Other floats are floats. No value goes
through a conversion of Arrow that could lose something: numbers that are not integers are built and read as bits.
"""

import struct
from decimal import Decimal, localcontext

import pyarrow
import pyarrow.compute

UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY_NS, DAY_MS = 86_400 * 10**9, 86_400_000
NEGATIVE_ZERO = ("f", 1 << 63)
types = pyarrow.types


def widened(bits, width):
    """The bits of a double that has the value of a float of `width` bits, and the payload of its NaN."""
    if width == 64:
        return bits
    exponent, mantissa = (5, 10) if width == 16 else (8, 23)
    sign, rest = bits >> (width - 1), bits & ((1 << mantissa) - 1)
    if (bits >> mantissa) & ((1 << exponent) - 1) == (1 << exponent) - 1:
        return sign << 63 | 0x7FF << 52 | rest << (52 - mantissa)
    code = "<e" if width == 16 else "<f"
    number = struct.unpack(code, bits.to_bytes(width // 8, "little"))[0]
    return struct.unpack("<Q", struct.pack("<d", number))[0]


def from_bits(bits, width=64):
    """A float, or its bits as a double where two floats that differ are equal, or one is not equal to itself."""
    bits = widened(bits, width)
    number = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    return ("f", bits) if number != number or bits == 1 << 63 else number


def to_bits(value, width):
    """The bits of a float of `width` bits."""
    if isinstance(value, tuple):
        bits = value[1]
        if width == 64:
            return bits
        exponent, mantissa = (5, 10) if width == 16 else (8, 23)
        sign, rest = bits >> 63, (bits & ((1 << 52) - 1)) >> (52 - mantissa)
        high = ((1 << exponent) - 1) << mantissa if (bits >> 52) & 0x7FF else 0
        return sign << (width - 1) | high | rest
    code, whole = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}[width]
    return struct.unpack(whole, struct.pack(code, value))[0]


def is_nan(value):
    return isinstance(value, tuple) and value[0] == "f" and value != NEGATIVE_ZERO


def is_text(kind):
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def is_bytes(kind):
    return types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind)


def is_list(kind):
    return types.is_list(kind) or types.is_large_list(kind)


def is_view(kind):
    return types.is_list_view(kind) or types.is_large_list_view(kind)


def whole(kind):
    """The integers that a type is stored as, the letter of its family, and what one of them is in the family's unit."""
    if types.is_date32(kind):
        return pyarrow.int32(), "d", 1
    if types.is_date64(kind):
        return pyarrow.int64(), "d", 0
    if types.is_timestamp(kind):
        return pyarrow.int64(), "z" if kind.tz is not None else "t", UNITS[kind.unit]
    if types.is_time32(kind):
        return pyarrow.int32(), "c", UNITS[kind.unit]
    if types.is_time64(kind):
        return pyarrow.int64(), "c", UNITS[kind.unit]
    if types.is_duration(kind):
        return pyarrow.int64(), "u", UNITS[kind.unit]
    return None


def runs(values):
    """The distinct neighbours, and where the run of each ends."""
    kept, ends = [], []
    for place, value in enumerate(values, 1):
        if kept and kept[-1] == value and type(kept[-1]) is type(value):
            ends[-1] = place
        else:
            kept.append(value)
            ends.append(place)
    return kept, ends


def offsets(values):
    """The offsets of lists, the items of all of them, and which ones are null."""
    made, items = [0], []
    for value in values:
        items += value[1:] if value is not None else ()
        made.append(len(items))
    return made, items, pyarrow.array([value is None for value in values], pyarrow.bool_())


def build_nested(kind, values):
    if types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        children = [build(field.type, [None if value is None else value[1 + place][1] for value in values])
                    for place, field in enumerate(fields)]
        mask = pyarrow.array([value is None for value in values], pyarrow.bool_())
        return pyarrow.StructArray.from_arrays(children, fields=fields, mask=mask)
    if types.is_fixed_size_list(kind):
        items = [item for value in values for item in (value[1:] if value is not None else [None] * kind.list_size)]
        mask = pyarrow.array([value is None for value in values], pyarrow.bool_())
        return pyarrow.FixedSizeListArray.from_arrays(build(kind.value_type, items), type=kind, mask=mask)
    made, items, mask = offsets(values)
    if types.is_map(kind):
        keys, of_keys = build(kind.key_type, [key for key, _ in items]), build(kind.item_type, [item for _, item in items])
        starts = [None if value is None else made[place] for place, value in enumerate(values)]
        places = pyarrow.array(starts + made[-1:], pyarrow.int32())
        return pyarrow.MapArray.from_arrays(places, keys, of_keys, type=kind)
    size = pyarrow.int64() if types.is_large_list(kind) or types.is_large_list_view(kind) else pyarrow.int32()
    if is_view(kind):
        one = pyarrow.LargeListViewArray if types.is_large_list_view(kind) else pyarrow.ListViewArray
        sizes = [after - before for before, after in zip(made, made[1:])]
        starts, sizes = pyarrow.array(made[:-1], size), pyarrow.array(sizes, size)
        return one.from_arrays(starts, sizes, build(kind.value_type, items), type=kind, mask=mask)
    one = pyarrow.LargeListArray if types.is_large_list(kind) else pyarrow.ListArray
    return one.from_arrays(pyarrow.array(made, size), build(kind.value_type, items), type=kind, mask=mask)


def build(kind, values):
    """An array of a type. Each null of a dictionary is a null value of the dictionary if its first one is at an even place."""
    if types.is_null(kind):
        return pyarrow.nulls(len(values))
    if types.is_dictionary(kind):
        distinct = list({repr(value): value for value in values if value is not None}.values())
        null_value = None in values and values.index(None) % 2 == 0
        places = {repr(value): place for place, value in enumerate(distinct + [None] * null_value)}
        indices = pyarrow.array([places.get(repr(value)) for value in values], kind.index_type)
        return pyarrow.DictionaryArray.from_arrays(indices, build(kind.value_type, distinct + [None] * null_value))
    if types.is_run_end_encoded(kind):
        kept, ends = runs(values)
        return pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array(ends, kind.run_end_type), build(kind.value_type, kept))
    if types.is_nested(kind):
        return build_nested(kind, values)
    if types.is_floating(kind):
        stored = {16: pyarrow.uint16(), 32: pyarrow.uint32(), 64: pyarrow.uint64()}[kind.bit_width]
        return pyarrow.array([None if value is None else to_bits(value, kind.bit_width) for value in values], stored).view(kind)
    if types.is_boolean(kind):
        return pyarrow.array([None if value is None else value[1] for value in values], kind)
    if types.is_interval(kind):
        return pyarrow.array([None if value is None else pyarrow.MonthDayNano(value[1:]) for value in values], kind)
    stored = whole(kind)
    if stored:
        integers, _, unit = stored
        numbers = [None if value is None else value[1] // unit if unit else value[1] * DAY_MS for value in values]
        return pyarrow.array(numbers, integers).view(kind)
    return pyarrow.array(values, kind)


def read_nested(array):
    kind, valid = array.type, array.is_valid().to_pylist()
    if types.is_struct(kind):
        names = [kind.field(place).name for place in range(kind.num_fields)]
        children = [read(array.field(place)) for place in range(kind.num_fields)]
        rows = zip(*children) if children else [()] * len(array)
        return [("s", *zip(names, row)) if one else None for one, row in zip(valid, rows)]
    if types.is_fixed_size_list(kind):
        items, size, first = read(array.values), kind.list_size, array.offset
        starts = [(first + place) * size for place in range(len(valid))]
        return [("l", *items[start:start + size]) if one else None for start, one in zip(starts, valid)]
    if is_view(kind):
        items = read(array.values)
        ends = zip(array.offsets.to_pylist(), array.sizes.to_pylist(), valid)
        return [("l", *items[start:start + size]) if one else None for start, size, one in ends]
    places = array.offsets.to_pylist()
    items = list(zip(read(array.keys), read(array.items))) if types.is_map(kind) else read(array.values)
    letter = "m" if types.is_map(kind) else "l"
    return [(letter, *items[start:end]) if one else None for start, end, one in zip(places, places[1:], valid)]


def read(array):
    """The values of an array, or of one in chunks."""
    if isinstance(array, pyarrow.ChunkedArray):
        return [value for chunk in array.chunks for value in read(chunk)]
    kind = array.type
    if types.is_dictionary(kind):
        distinct = read(array.dictionary)
        return [None if place is None else distinct[place] for place in array.indices.to_pylist()]
    if types.is_run_end_encoded(kind):
        return read(pyarrow.compute.run_end_decode(array))
    if types.is_nested(kind):
        return read_nested(array)
    if types.is_floating(kind):
        stored = {16: pyarrow.uint16(), 32: pyarrow.uint32(), 64: pyarrow.uint64()}[kind.bit_width]
        return [None if bits is None else from_bits(bits, kind.bit_width) for bits in array.view(stored).to_pylist()]
    if types.is_boolean(kind):
        return [None if value is None else ("b", value) for value in array.to_pylist()]
    if types.is_interval(kind):
        return [None if value is None else ("i", *value) for value in array.to_pylist()]
    stored = whole(kind)
    if stored:
        integers, letter, unit = stored
        numbers = array.view(integers).to_pylist()
        if unit:
            return [None if value is None else (letter, value * unit) for value in numbers]
        return [None if value is None else ("d", value // DAY_MS if value % DAY_MS == 0 else value / DAY_MS) for value in numbers]
    if isinstance(kind, pyarrow.BaseExtensionType):
        return read(array.storage)
    return array.to_pylist()


def decimal(unscaled, scale):
    """A decimal of any number of digits."""
    with localcontext(prec=100):
        return Decimal(unscaled).scaleb(-scale)
