"""Asks a file queries, each in a session of its own."""

import pyarrow.ipc

from engines import Engine

# The CPUs of a process.
THREADS = 2


class Refused(Exception):
    """A query ended with an error."""


class Sessions(Engine):
    """The process annulus-sessions, which is started again when it is lost."""

    def __init__(self, program, folder, timeout):
        super().__init__("annulus", [program], THREADS, timeout)
        self.file = folder / "answer"

    def request(self, query, witness):
        return query

    def answer(self, path, sql, settings):
        """The rows of an answer.

        Raises Refused if there is an error.
        """
        given = {name: value for name, value in settings.items() if value is not None}
        folder = "/" if path.is_dir() else ""
        request = {"tables": {"t": {"path": f"{path}{folder}"}}, "settings": given, "stock": False, "sql": sql}
        reply = self.run(request, False, self.file)
        if reply["error"]:
            raise Refused(reply["error"])
        # Not mapped: the next answer has the same file.
        with pyarrow.ipc.open_stream(self.file.read_bytes()) as stream:
            return stream.read_all()
