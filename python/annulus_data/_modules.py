"""Libraries that are used where they are installed."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import InputError

__all__ = ["needed"]


def needed(name: str, what: str) -> Any:
    """Returns the module ``name``, which ``what`` needs.

    Raises:
        InputError: If it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(f"{what} needs {name}: pip install {name}") from None
