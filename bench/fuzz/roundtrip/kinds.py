"""Random types and values: every type that Arrow has, with the values that hurt."""

import struct
from dataclasses import dataclass

import pyarrow

import model
from model import DAY_NS, UNITS, types

# 1582-10-04 to 15, 0001-01-01 and the day before, 9999-12-31 and the day after, 1900, 1970, 2000-02-29, and 2262.
DAYS = (-141_428, -141_427, -141_438, -719_162, -719_163, 2_932_896, 2_932_897, -25_567, -1, 0, 1, 11_016, 106_751, 106_752,
        19_000, 19_001)
# Around the changes of the clock in Zurich in 2025, and a plain time.
INSTANTS = (1_743_296_400, 1_743_292_800, 1_761_440_400, 1_761_438_600, 1_735_689_600, 1_735_693_200)
TEXTS = (
    "", " ", "NULL", "null", "None", "NaN", "nan", "inf", "-", "__HIVE_DEFAULT_PARTITION__", "00123", "007", "+77", " 12", "12 ", "1e5",
    "1.50", "0x10", "-0", "-0.0", "1", "2", "10", "123456789012345678901234567890", "9007199254740993", "0.1", "true", "True", "f",
    "2020-01-01", "2020-01-01T00:00:00Z", "2020-01-01 00:00:00", "2025-03-30T02:30:00+02:00", "12:30:00", "a,b", 'a"b', '"', '""', "a\nb",
    "a\r\nb", "a\tb", "a;b", "a|b", "'", "it's", "\\", "\\N", "a\\", "%2F", "%", "a/b", "a=b", "k=v", "..", ".", "#c", "é", "e\u0301",
    "\ufeffx", "x", "y", "a text longer than twelve bytes", "1_000", "{}", "[1]", "_x", ".x", "~", "  ", "١٢",
)
BYTES = (b"", b"\0", b"\0\0", b"a", b"ab", b"\xff", b"\xff\xfe\xfd\xfc", b"a,b\n", b"longer than twelve bytes \0\xff")
ZONES = ("UTC", "Europe/Zurich", "+05:30", "America/New_York", "-08:00", "Asia/Kathmandu")


def doubles(*numbers):
    return tuple(struct.unpack("<Q", struct.pack("<d", number))[0] for number in numbers)


# Bits of floats: NaN of several bits, zeros of both signs, infinities, the least and the largest of each kind, and plain ones.
BITS = {
    64: (0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) | 1, (0x7FF0 << 48) | 1, 0, 1 << 63, 0x7FF0 << 48, 0xFFF0 << 48, 1, (1 << 63) | 1,
         0x7FEFFFFFFFFFFFFF, 0x0010000000000000, *doubles(1.0, 1.0, -1.0, 0.1, 0.30000000000000004, 2.0, 1e16, 9007199254740993.0)),
    32: (0x7FC00000, 0xFFC00000, 0x7FC00001, 0, 1 << 31, 0x7F800000, 0xFF800000, 1, 0x7F7FFFFF, 0x00800000, 0x3F800000, 0x3F800000,
         0xBF800000, 0x3DCCCCCD, 0x40000000, 0x4B800001),
    16: (0x7E00, 0xFE00, 0x7E01, 0, 0x8000, 0x7C00, 0xFC00, 1, 0x7BFF, 0x0400, 0x3C00, 0x3C00, 0xBC00, 0x2E66),
}

INTEGERS = (pyarrow.int8(), pyarrow.int16(), pyarrow.int32(), pyarrow.int64(),
            pyarrow.uint8(), pyarrow.uint16(), pyarrow.uint32(), pyarrow.uint64())
FLOATS = (pyarrow.float64(), pyarrow.float64(), pyarrow.float32(), pyarrow.float16())
STRINGS = (pyarrow.string(), pyarrow.string(), pyarrow.large_string(), pyarrow.string_view())
BINARIES = (pyarrow.binary(), pyarrow.large_binary(), pyarrow.binary_view(), pyarrow.binary(4), pyarrow.binary(16))
INDICES = (pyarrow.int8(), pyarrow.int16(), pyarrow.int32(), pyarrow.int64(), pyarrow.uint8(), pyarrow.uint32())


def decimal_type(random):
    width = random.choice((32, 64, 128, 128, 128, 256))
    most = {32: 9, 64: 18, 128: 38, 256: 76}[width]
    digits = random.choice((1, most, most, random.randint(1, most)))
    scale = random.choice((0, digits, random.randint(0, digits), min(2, digits)))
    return {32: pyarrow.decimal32, 64: pyarrow.decimal64, 128: pyarrow.decimal128, 256: pyarrow.decimal256}[width](digits, scale)


def timestamp_type(random):
    return pyarrow.timestamp(random.choice(tuple(UNITS)), random.choice((None, *ZONES)) if random.random() < 0.7 else None)


def time_type(random):
    return random.choice((pyarrow.time32("s"), pyarrow.time32("ms"), pyarrow.time64("us"), pyarrow.time64("ns")))


def list_type(random, item):
    shape = random.choice((pyarrow.list_, pyarrow.list_, pyarrow.large_list, pyarrow.list_view, "fixed"))
    return pyarrow.list_(item, random.choice((1, 2))) if shape == "fixed" else shape(item)


FLAT = (
    (10, lambda random: random.choice(INTEGERS)),
    (9, lambda random: random.choice(FLOATS)),
    (9, lambda random: random.choice(STRINGS)),
    (6, decimal_type),
    (7, timestamp_type),
    (4, lambda random: random.choice((pyarrow.date32(), pyarrow.date32(), pyarrow.date64()))),
    (3, lambda random: pyarrow.bool_()),
    (2, time_type),
    (2, lambda random: pyarrow.duration(random.choice(tuple(UNITS)))),
    (1, lambda random: pyarrow.month_day_nano_interval()),
    (3, lambda random: random.choice(BINARIES)),
    (1, lambda random: pyarrow.null()),
)


def flat_type(random):
    makers = [maker for _, maker in FLAT]
    return random.choices(makers, [weight for weight, _ in FLAT])[0](random)


def wrapped_type(random, depth):
    """A type whose values are those of another one."""
    shape = random.choice(("dictionary", "dictionary", "runs", "list", "list", "struct", "struct", "map"))
    if shape == "dictionary":
        value = random.choice((*STRINGS[:3], *STRINGS[:3], pyarrow.int64(), pyarrow.float64(), pyarrow.binary(), timestamp_type(random)))
        return pyarrow.dictionary(random.choice(INDICES), value)
    if shape == "runs":
        value = random.choice((pyarrow.string(), pyarrow.int64(), pyarrow.float64()))
        return pyarrow.run_end_encoded(random.choice((pyarrow.int16(), pyarrow.int32(), pyarrow.int64())), value)
    inner = (lambda: any_type(random, depth + 1)) if depth < 2 else (lambda: flat_type(random))
    if shape == "list":
        return list_type(random, inner())
    if shape == "map":
        key = random.choice((pyarrow.string(), pyarrow.int32(), pyarrow.date32()))
        return pyarrow.map_(key, inner())
    return pyarrow.struct([(f"f{place}", inner()) for place in range(random.randint(1, 2))])


def any_type(random, depth=0):
    kind = wrapped_type(random, depth) if random.random() < (0.25 if depth == 0 else 0.15) else flat_type(random)
    # Run ends below other types are read by next to nothing.
    return any_type(random, depth) if depth and types.is_run_end_encoded(kind) else kind


@dataclass
class Source:
    """Random values of one column. Most columns have few distinct ones, so that groups and joins have partners."""

    random: object
    # From 0, plain values, to 1, those that hurt.
    hurt: float

    def integer(self, least, most):
        random = self.random
        if random.random() < self.hurt:
            return random.choice((least, most, least + 1, most - 1, 0, max(least, -1), 1, most // 2))
        return max(least, min(most, random.randint(-3, 12)))

    def decimal(self, kind):
        most = 10**kind.precision - 1
        return model.decimal(self.integer(-most, most), kind.scale)

    def whole(self, kind):
        """A value of a type that is stored as integers of a unit."""
        random, (_, letter, unit) = self.random, model.whole(kind)
        if letter == "d":
            return ("d", random.choice(DAYS) if random.random() < self.hurt else random.randint(18_000, 18_010))
        if letter == "c":
            most = DAY_NS // unit - 1
            return ("c", unit * random.choice((0, 1, most, most // 2, 43_200 * 10**9 // unit, random.randint(0, most))))
        if letter == "u":
            return ("u", unit * self.integer(-(2**63), 2**63 - 1))
        count = 10**9 // unit
        if random.random() < self.hurt:
            days = random.choice(DAYS) if unit > 1 else random.choice((-106_750, 106_750, -1, 0, 19_000))
            return (letter, unit * (days * 86_400 * count + random.choice((0, 1, count - 1, 43_200 * count))))
        return (letter, unit * (random.choice(INSTANTS) * count + random.choice((0, 0, count // 2))))

    def value(self, kind):
        random = self.random
        if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
            return self.value(kind.value_type)
        if types.is_null(kind):
            return None
        if types.is_boolean(kind):
            return ("b", random.random() < 0.5)
        if types.is_integer(kind):
            bits = kind.bit_width
            half = 2 ** (bits - 1)
            return self.integer(-half, half - 1) if types.is_signed_integer(kind) else self.integer(0, 2 * half - 1)
        if types.is_floating(kind):
            width = kind.bit_width
            hurts = random.random() < self.hurt
            return model.from_bits(random.choice(BITS[width]), width) if hurts else random.randint(-4, 9) / 4
        if types.is_decimal(kind):
            return self.decimal(kind)
        if types.is_interval(kind):
            return ("i", random.choice((0, 1, -1, 12)), random.choice((0, 1, 30, -1)), random.choice((0, 1, -1, DAY_NS, 2**62)))
        if model.whole(kind):
            return self.whole(kind)
        if model.is_text(kind):
            return random.choice(TEXTS) if random.random() < self.hurt else f"k{random.randint(0, 9)}"
        if types.is_fixed_size_binary(kind):
            return bytes(random.choice((0, 0, 1, 65, 255)) for _ in range(kind.byte_width))
        if model.is_bytes(kind):
            return random.choice(BYTES)
        return self.nested(kind)

    def nested(self, kind):
        random = self.random
        if types.is_struct(kind):
            return ("s", *((kind.field(place).name, self.maybe(kind.field(place).type)) for place in range(kind.num_fields)))
        if types.is_map(kind):
            keys = {repr(key): key for key in (self.value(kind.key_type) for _ in range(random.choice((0, 1, 2, 3))))}
            return ("m", *((key, self.maybe(kind.item_type)) for key in keys.values()))
        count = kind.list_size if types.is_fixed_size_list(kind) else random.choice((0, 1, 2, 3))
        return ("l", *(self.maybe(kind.value_type) for _ in range(count)))

    def maybe(self, kind, rate=0.2):
        return None if self.random.random() < rate else self.value(kind)


def column(random, kind, count):
    """Values of a type: without nulls, with some, or nulls alone; all drawn anew, or from a few of them."""
    source = Source(random, random.choice((0.2, 0.6, 1.0)))
    rate = random.choice((0, 0, 0.1, 0.4, 1 if random.random() < 0.3 else 0))
    if random.random() < 0.5:
        pool = [source.value(kind) for _ in range(random.choice((1, 2, 3, 5)))]
        return [None if random.random() < rate else random.choice(pool) for _ in range(count)]
    return [source.maybe(kind, rate) for _ in range(count)]
