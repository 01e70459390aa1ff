"""Notes about what was done, as warnings."""

from __future__ import annotations

import sys
import warnings

from . import _internal
from .errors import AnnulusWarning

__all__ = ["warn"]


def warn() -> None:
    """Shows the notes about what was done, at the line of the caller."""
    notes = _internal.take_notes()
    if not notes:
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    for note in notes:
        warnings.warn(note, AnnulusWarning, stacklevel=level)
