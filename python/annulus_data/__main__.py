"""The command ``annulus``."""

from __future__ import annotations

import signal
import sys

from . import _internal


def main() -> None:
    """Runs the command with the arguments of this process."""
    # The command has its own answers to signals.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _internal.set_program(sys.executable, ["-m", "annulus_data"])
    sys.exit(_internal.run_command(["annulus", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
