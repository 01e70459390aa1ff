"""Sessions of datafusion-python that plan and run their queries with Annulus."""

from __future__ import annotations

import importlib
from typing import Any

from . import _internal
from .errors import OptionError
from .session import Session, default_session

__all__ = ["enable"]

MAJOR = 55
"""The major version of DataFusion in this package. What passes between two copies of DataFusion is the same
within one."""


class _Extension:
    """A bundle of extensions, as ``SessionContext.with_extensions`` takes it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __datafusion_session_components__(self, _: Any) -> Any:
        extensions: Any = importlib.import_module("datafusion.extensions")
        codec = _internal.Foreign(self._session._session)
        return extensions.SessionExtensionComponents(
            logical_extension_codecs=(codec,), physical_extension_codecs=(codec,)
        )

    def __datafusion_session_planner__(self, _: Any, fallback: Any) -> Any:
        return _internal.Foreign(self._session._session, fallback)


def enable(ctx: Any, session: Session | None = None) -> Any:
    """Makes a session of datafusion-python plan and run its queries with Annulus.

    The session keeps its tables, its functions, its options and its SQL. Physical plans are made here, of files as
    well as of tables in its memory, and run on the threads of ``session``, within its limits.

    These stay those of the other session: what its SQL can say, and the rules of the optimizer over logical plans.
    ``COPY`` and ``write_parquet`` fail in it, because DataFusion 55 does not pass formats of files to other
    libraries: ``annulus_data.sql("SELECT * FROM rows", rows=frame).write(path)`` writes a data frame.

    ``session`` keeps ``ctx`` until it is closed. Calling this once more changes nothing.

    Args:
        ctx: A ``datafusion.SessionContext`` of datafusion 55.
        session: The session of Annulus whose threads, memory and disk are used; by default that of the module.

    Returns:
        A handle on the same session, which has the extension. ``ctx`` has it as well.

    Raises:
        OptionError: If datafusion has another major version.

    >>> import annulus_data as an
    >>> import datafusion
    >>> ctx = an.enable(datafusion.SessionContext())
    >>> ctx.sql("SELECT 1 AS a").to_pydict()
    {'a': [1]}
    """
    # It takes longer to import than the rest of this package.
    metadata: Any = importlib.import_module("importlib.metadata")
    version: str = metadata.version("datafusion")
    if int(version.split(".")[0]) != MAJOR:
        raise OptionError(
            f"datafusion is {version}, and this package has DataFusion {MAJOR}: install datafusion=={MAJOR}.*"
        )
    session = session or default_session()
    if _internal.FOREIGN_ID in ctx.physical_extension_codec_ids():
        return ctx
    enabled = ctx.with_extensions(_Extension(session))
    # Data frames outlive the handle of their session, and what DataFusion passes between libraries does not.
    session._foreign.append((ctx, enabled))
    return enabled
