"""Annulus as a case uses it: a shell that lives long, and commands with a process of their own."""

import contextlib
import json
import os
import pty
import re
import select
import subprocess
import time

import pyarrow

# The longest that a statement or a command may take, in seconds.
TIMEOUT = 120
# No answer to valid input may have these.
BROKEN = re.compile(r"panick|Internal error|This was likely caused by a bug|not aligned|index out of bounds|internal error: entered|overflow$")
# What differs from one run to the next in messages.
VOLATILE = re.compile(r"'[^']*/[^']*'|\S*/roundtrip\S+|\d{3,}")


class Refused(Exception):
    """Annulus has said why it does not do it."""

    def __init__(self, message):
        super().__init__(message)
        self.message = message

    @property
    def is_broken(self):
        return bool(BROKEN.search(self.message))


class Lost(Exception):
    """The process has ended, or does not answer."""


def environment(folder):
    own = {"TERM": "dumb", "ANNULUS_PROFILE": "none", "XDG_DATA_HOME": str(folder), "NO_COLOR": "1", "RUST_BACKTRACE": "0"}
    return {**os.environ, **own}


class Shell:
    """The shell of `annulus sql` on a terminal of its own. Each text of statements comes in a file."""

    def __init__(self, program, folder, options=()):
        self.program, self.folder, self.options = program, folder, options
        self.process = None

    def start(self):
        terminal, end = pty.openpty()
        command = [self.program, "sql", "--format", "ndjson", "--threads", "2", *self.options]
        self.process = subprocess.Popen(command, stdin=end, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        start_new_session=True, env=environment(self.folder))
        os.close(end)
        self.terminal, self.rest = terminal, b""

    def end(self):
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        os.close(self.terminal)
        self.process = None

    def until(self, mark):
        """What is printed before a mark."""
        finish = time.monotonic() + TIMEOUT
        while mark not in self.rest:
            ready = select.select([self.process.stdout], [], [], max(0, finish - time.monotonic()))[0]
            part = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if not part:
                why = "ended" if ready else f"has not answered within {TIMEOUT} s"
                said = self.rest.decode(errors="replace")[-500:]
                self.end()
                raise Lost(f"annulus sql {why}: {said}")
            self.rest += part
        before, _, self.rest = self.rest.partition(mark)
        return before.decode(errors="replace")

    def run(self, statements):
        """Runs statements, and returns the rows that they print. They may not have quarrels with each other."""
        if self.process is None:
            self.start()
        script = self.folder / "statements.sql"
        script.write_text(statements)
        # A command whose answer is known marks the end.
        os.write(self.terminal, f"\\i {script}\n\\timing off\n".encode())
        printed = self.until(b"timing is off\n").replace("annulus> ", "")
        refused = re.search(r"^error: (.*)", printed, re.MULTILINE | re.DOTALL)
        if refused or "panicked" in printed:
            raise Refused((refused.group(1) if refused else printed).strip())
        return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]

    def table(self, query, answer):
        """The rows of a query, which Annulus writes to a file of Arrow."""
        with contextlib.suppress(FileNotFoundError):
            answer.unlink()
        self.run(f"COPY ({query}) TO '{answer}' STORED AS ARROW;")
        return arrow(answer)


def arrow(path):
    return pyarrow.ipc.open_file(path.read_bytes()).read_all()


def command(program, folder, *arguments, stdin=None):
    """Runs a command of Annulus."""
    made = subprocess.run([program, *map(str, arguments)], stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=TIMEOUT, env=environment(folder), cwd=folder)
    if made.returncode != 0:
        raise Refused(made.stderr.decode(errors="replace").strip().removeprefix("error: "))


def kind_of(message):
    """A message without what differs from one case to the next."""
    return VOLATILE.sub("#", message.splitlines()[0] if message else "")[:140]
