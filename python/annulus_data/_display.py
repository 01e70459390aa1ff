"""Rows for terminals and for notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence

__all__ = ["as_html", "as_text"]

Row = Sequence[str | None]

_CELL = 60
"""The most characters of a cell."""


def _cut(text: str) -> str:
    text = "".join(c if c.isprintable() else "↵" if c == "\n" else repr(c)[1:-1] for c in text[: 2 * _CELL])
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _is_number(kind: str) -> bool:
    return kind.startswith(("Int", "UInt", "Float", "Decimal"))


def as_text(names: Sequence[str], types: Sequence[str], rows: Sequence[Row], summary: str) -> str:
    """Returns a table of ``rows`` in lines, with ``summary`` below."""
    cells = [[_cut("NULL" if cell is None else cell) for cell in row] for row in rows]
    heads = [[_cut(name) for name in names], [_cut(kind) for kind in types]]
    widths = [max((len(row[column]) for row in heads + cells), default=0) for column in range(len(names))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"

    def line(row: Sequence[str], *, is_value: bool) -> str:
        shown: list[str] = []
        for cell, width, kind in zip(row, widths, types, strict=True):
            shown.append(cell.rjust(width) if is_value and _is_number(kind) else cell.ljust(width))
        return "| " + " | ".join(shown) + " |"

    lines = [rule, *(line(head, is_value=False) for head in heads), rule]
    lines += [line(row, is_value=True) for row in cells]
    return "\n".join([*lines, rule, summary] if cells else [*lines, summary])


def as_html(names: Sequence[str], types: Sequence[str], rows: Sequence[Row], summary: str) -> str:
    """Returns a table of ``rows`` as HTML, with ``summary`` below."""

    def cell(tag: str, text: str, style: str = "") -> str:
        return f"<{tag}{style}>{text}</{tag}>"

    heads = "".join(
        cell("th", f"{html.escape(name)}<br><small>{html.escape(kind)}</small>")
        for name, kind in zip(names, types, strict=True)
    )
    body: list[str] = []
    for row in rows:
        cells: list[str] = []
        for value, kind in zip(row, types, strict=True):
            style = ' style="text-align: right"' if _is_number(kind) else ' style="text-align: left"'
            cells.append(cell("td", "<i>null</i>" if value is None else html.escape(_cut(value)), style))
        body.append(cell("tr", "".join(cells)))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f"<div>{table}<p><small>{html.escape(summary)}</small></p></div>"
