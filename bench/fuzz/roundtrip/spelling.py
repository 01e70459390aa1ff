"""Values as texts, for CSV and JSON, and what a reader of texts may make of them without a loss."""

import datetime
import re
from decimal import Decimal, InvalidOperation

import model
from model import DAY_NS, types

NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
DATE = re.compile(r"([+-]?\d{4,6})-(\d\d)-(\d\d)")
INSTANT = re.compile(r"([+-]?\d{4,6}-\d\d-\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?")
CLOCK = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")


def civil(days):
    """The year, month and day of a number of days since 1970, for all years."""
    era, rest = divmod(days + 719_468, 146_097)
    year = (rest - rest // 1460 + rest // 36_524 - rest // 146_096) // 365
    day = rest - (365 * year + year // 4 - year // 100)
    month = (5 * day + 2) // 153
    return year + era * 400 + (month >= 10), month + 3 if month < 10 else month - 9, day - (153 * month + 2) // 5 + 1


def days(year, month, day):
    """The reverse of `civil`."""
    year -= month <= 2
    era, rest = divmod(year, 400)
    place = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + rest * 365 + rest // 4 - rest // 100 + place - 719_468


def date(count):
    year, month, day = civil(count)
    return f"{'+' if year > 9999 else '-' if year < 0 else ''}{abs(year):04}-{month:02}-{day:02}"


def clock(ns):
    seconds, rest = divmod(ns, 10**9)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{rest:09}".rstrip("0") if rest else text


def instant(ns):
    count, rest = divmod(ns, DAY_NS)
    return f"{date(count)}T{clock(rest)}"


def spell(kind, value):
    """The text of a value in CSV, other than None."""
    if types.is_dictionary(kind):
        return spell(kind.value_type, value)
    if model.is_nan(value):
        return "NaN"
    if value == model.NEGATIVE_ZERO:
        return "-0.0"
    if types.is_floating(kind):
        return repr(shortest(value, kind.bit_width)) if abs(value) != float("inf") else "inf" if value > 0 else "-inf"
    if types.is_decimal(kind):
        return f"{value:f}"
    if isinstance(value, tuple):
        letter = value[0]
        if letter == "b":
            return str(value[1]).lower()
        return {"d": date, "t": instant, "z": lambda ns: instant(ns) + "Z", "c": clock}[letter](value[1])
    return str(value)


def shortest(value, width):
    """The double whose text is the shortest that gives this float back."""
    if width == 64:
        return value
    for digits in range(1, 18):
        short = float(f"{value:.{digits}g}")
        try:
            if model.from_bits(model.to_bits(short, width), width) == value:
                return short
        except OverflowError:
            pass
    return value


def nanoseconds(hours, minutes, seconds, fraction):
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)) * 10**9 + int((fraction or "0").ljust(9, "0"))


def parse_date(text):
    found = DATE.fullmatch(text)
    return found and days(*map(int, found.groups()))


def parse_clock(text):
    found = CLOCK.fullmatch(text)
    return found and nanoseconds(*found.groups())


def parse_instant(text):
    """The nanoseconds since 1970, and whether the text has a zone."""
    found = INSTANT.fullmatch(text.strip())
    if not found:
        return None
    day, *of_clock, zone = found.groups()
    ns = parse_date(day) * DAY_NS + nanoseconds(*of_clock)
    if zone and zone != "Z":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset = (int(digits[:2]) * 60 + int(digits[2:])) * 60 * 10**9
        ns += offset if zone[0] == "-" else -offset
    return ns, bool(zone)


def number_of(text):
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def same_float(value, found, width):
    """Whether a double that was read from a text is the float that was written."""
    if model.is_nan(value) or model.is_nan(found):
        return model.is_nan(value) and model.is_nan(found)
    if isinstance(value, tuple) or isinstance(found, tuple):
        return value == found
    try:
        return value == found or model.from_bits(model.to_bits(float(found), width), width) == value
    except OverflowError:
        return False


def number_says(text, found):
    """Whether a number says all that a text says: only numbers in their usual spelling are numbers."""
    if isinstance(found, tuple):
        return model.is_nan(found) and text.lower() == "nan" or found == model.NEGATIVE_ZERO and float(text) == 0
    if not NUMBER.fullmatch(text):
        return isinstance(found, float) and text.lower() in ("inf", "-inf", "infinity", "-infinity") and float(text) == found
    if isinstance(found, float) and abs(found) == float("inf"):
        return False
    # A zero with a sign is not the integer 0.
    if text.startswith("-") and number_of(text) == 0:
        return False
    return number_of(text) == (number_of(repr(found)) if isinstance(found, float) else found)


def text_says(kind, value, found):
    """Whether the text `found` says what a value is."""
    if types.is_boolean(kind):
        return found.lower() == str(value[1]).lower()
    if types.is_floating(kind):
        try:
            read = float(found)
        except ValueError:
            return False
        return same_float(value, model.from_bits(model.to_bits(read, 64)), kind.bit_width)
    if types.is_integer(kind) or types.is_decimal(kind):
        return number_of(found) == value
    if model.is_bytes(kind):
        return found.lower().removeprefix("\\x") == value.hex() or found == value.decode("latin-1")
    if types.is_date(kind):
        return parse_date(found[:-9] if found.endswith("T00:00:00") else found) == value[1]
    if types.is_timestamp(kind):
        read = parse_instant(found)
        return read is not None and read == (value[1], value[0] == "z")
    return types.is_time(kind) and parse_clock(found) == value[1]


def text_told(text, found):
    """Whether a value that was inferred from a text says all that the text says."""
    if isinstance(found, tuple) and found[0] != "f":
        letter, read = found[0], found[1]
        if letter == "b":
            return text.lower() == str(read).lower()
        if letter == "d":
            return parse_date(text) == read
        if letter == "c":
            return parse_clock(text) == read
        if letter in "tz":
            whole = parse_date(text)
            return parse_instant(text) == (read, letter == "z") or letter == "t" and whole is not None and whole * DAY_NS == read
        return False
    return not isinstance(found, str) and number_says(text, found)


def same_read(kind, value, found):
    """Whether a reader of CSV or JSON has found what was written, as it or as a text or a number that says the same."""
    if value is None or found is None:
        return value is found
    if value == found:
        return True
    if types.is_dictionary(kind):
        return same_read(kind.value_type, value, found)
    if isinstance(value, str):
        return text_told(value, found)
    if isinstance(found, str):
        return text_says(kind, value, found)
    if types.is_floating(kind):
        return isinstance(found, (int, float, tuple, Decimal)) and same_float(value, found, kind.bit_width)
    if types.is_decimal(kind) and isinstance(found, float):
        return number_of(repr(found)) == value
    if types.is_timestamp(kind) and isinstance(found, tuple) and found[0] == "d":
        return value == ("t", found[1] * DAY_NS)
    return types.is_date(kind) and found == ("t", value[1] * DAY_NS)


def python(kind, value):
    """A value as `json` of Python writes it."""
    if value is None:
        return None
    if isinstance(value, tuple) and value[0] in "lsm":
        if value[0] == "l":
            return [python(kind.value_type, item) for item in value[1:]]
        pairs = value[1:]
        if value[0] == "s":
            return {name: python(kind.field(name).type, item) for name, item in pairs}
        return {spell(kind.key_type, key): python(kind.item_type, item) for key, item in pairs}
    if types.is_boolean(kind):
        return value[1]
    if types.is_integer(kind) or types.is_floating(kind) and not isinstance(value, tuple) and abs(value) != float("inf"):
        return value if types.is_integer(kind) else shortest(value, kind.bit_width)
    return spell(kind, value)


assert all(civil(days(*day)) == day for day in ((1970, 1, 1), (-1, 12, 31), (10_000, 2, 29), (1, 1, 1)))
assert days(9999, 12, 31) == (datetime.date(9999, 12, 31) - datetime.date(1970, 1, 1)).days
