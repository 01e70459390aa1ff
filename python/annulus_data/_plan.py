"""What the operators of a query did, as a picture."""

from __future__ import annotations

import html
import json
from typing import Any, NamedTuple

__all__ = ["Operator", "Plan"]

_WIDTH = 230
_HEIGHT = 62
_GAP = 24
_LEVEL = 34
_COLD = (232, 240, 250)
_HOT = (247, 148, 110)


class Operator(NamedTuple):
    """An operator of a query that has run.

    Attributes:
        name: Its name, such as ``HashJoinExec``.
        details: Its arguments, as ``EXPLAIN`` shows them.
        rows: The rows that it returned; ``None`` if it does not count them.
        bytes: The bytes of these rows; ``None`` if it does not count them.
        seconds: The time that it computed, in the sum of all threads.
        spilled_bytes: The bytes that it wrote to disk.
        partitions: The number of partitions of its rows.
        inputs: The operators that it reads.
    """

    name: str
    details: str
    rows: int | None
    bytes: int | None
    seconds: float | None
    spilled_bytes: int | None
    partitions: int
    inputs: tuple[Operator, ...] = ()

    @staticmethod
    def _of(node: dict[str, Any]) -> Operator:
        nanoseconds: int | None = node["nanoseconds"]
        return Operator(
            name=node["name"],
            details=node["details"],
            rows=node["rows"],
            bytes=node["bytes"],
            seconds=None if nanoseconds is None else nanoseconds / 1e9,
            spilled_bytes=node["spilled_bytes"],
            partitions=node["partitions"],
            inputs=tuple(Operator._of(child) for child in node["inputs"]),
        )


class Plan:
    """The operators of a query that has run. In a notebook it is a picture.

    Attributes:
        root: The operator that returned the rows.
    """

    def __init__(self, text: str) -> None:
        self.root = Operator._of(json.loads(text))

    def operators(self) -> list[Operator]:
        """Returns all operators, each before its inputs.

        >>> import annulus_data as an
        >>> [operator.name for operator in an.sql("SELECT 1 AS x").plan().operators()]
        ['ProjectionExec', 'PlaceholderRowExec']
        """
        found: list[Operator] = []
        waiting = [self.root]
        while waiting:
            operator = waiting.pop()
            found.append(operator)
            waiting.extend(reversed(operator.inputs))
        return found

    def __repr__(self) -> str:
        lines: list[str] = []

        def add(operator: Operator, depth: int) -> None:
            lines.append("  " * depth + operator.name + "".join(f", {fact}" for fact in _facts(operator)))
            for child in operator.inputs:
                add(child, depth + 1)

        add(self.root, 0)
        return "\n".join(lines)

    def to_svg(self) -> str:
        """Returns the picture: a box for each operator with its rows, bytes and time, above its inputs. The
        warmer its colour, the larger its share of the time."""
        return _svg(self)

    def _repr_svg_(self) -> str:
        return _svg(self)


def _amount(value: float, units: list[str], step: float) -> str:
    for unit in units[:-1]:
        if value < step:
            return f"{value:,.0f}{unit}" if value == int(value) else f"{value:,.1f}{unit}"
        value /= step
    return f"{value:,.1f}{units[-1]}"


def _facts(operator: Operator) -> list[str]:
    facts: list[str] = []
    if operator.rows is not None:
        facts.append(f"{operator.rows:,} rows")
    if operator.bytes is not None:
        facts.append(_amount(operator.bytes, [" B", " KiB", " MiB", " GiB"], 1024))
    if operator.seconds is not None:
        facts.append(f"{operator.seconds * 1e3:,.1f} ms")
    if operator.spilled_bytes:
        facts.append(_amount(operator.spilled_bytes, [" B", " KiB", " MiB", " GiB"], 1024) + " spilled")
    return facts


def _leaves(operator: Operator) -> int:
    return sum(map(_leaves, operator.inputs)) or 1


def _depth(operator: Operator) -> int:
    return 1 + max(map(_depth, operator.inputs), default=0)


def _colour(share: float) -> str:
    red, green, blue = (round(cold + (hot - cold) * share) for cold, hot in zip(_COLD, _HOT, strict=True))
    return f"rgb({red},{green},{blue})"


def _svg(plan: Plan) -> str:
    most = max((operator.seconds or 0.0 for operator in plan.operators()), default=0.0) or 1.0
    boxes: list[str] = []
    lines: list[str] = []

    def place(operator: Operator, left: float, level: int) -> float:
        """Draws an operator and what it reads, from ``left`` on, and returns the middle of its box."""
        top = _GAP + level * (_HEIGHT + _LEVEL)
        at = left
        middles: list[float] = []
        for child in operator.inputs:
            middles.append(place(child, at, level + 1))
            at += _leaves(child) * (_WIDTH + _GAP)
        middle = sum(middles) / len(middles) if middles else left + _WIDTH / 2
        for child_middle in middles:
            lines.append(
                f'<path d="M{child_middle:.0f} {top + _HEIGHT + _LEVEL} C{child_middle:.0f} {top + _HEIGHT + 10} '
                f'{middle:.0f} {top + _HEIGHT + 24} {middle:.0f} {top + _HEIGHT}" fill="none" stroke="#888"/>'
            )
        facts = _facts(operator)
        texts = [
            (18, "bold", operator.name),
            (36, "normal", " · ".join(facts[:2])),
            (53, "normal", " · ".join(facts[2:])),
        ]
        boxes.append(
            f'<g><title>{html.escape(operator.details)}</title><rect x="{middle - _WIDTH / 2:.0f}" y="{top}" '
            f'width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{_colour((operator.seconds or 0.0) / most)}" '
            'stroke="#555"/>'
            + "".join(
                f'<text x="{middle:.0f}" y="{top + y}" text-anchor="middle" font-weight="{weight}">'
                f"{html.escape(text)}</text>"
                for y, weight, text in texts
                if text
            )
            + "</g>"
        )
        return middle

    place(plan.root, _GAP, 0)
    width = _GAP + _leaves(plan.root) * (_WIDTH + _GAP)
    height = 2 * _GAP + _depth(plan.root) * (_HEIGHT + _LEVEL) - _LEVEL
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12">{"".join(lines)}{"".join(boxes)}</svg>'
    )
