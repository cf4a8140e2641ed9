"""LineServer: a server that answers with given lines, for what no other peer can be asked for.

Neither Ollama's server nor an independent one that thinks, counts or pulls models is to be had.
The lines are those of https://github.com/ollama/ollama/blob/main/docs/api.md.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

Line = Mapping[str, Any] | bytes


class Answer(NamedTuple):
    """One response."""

    status: int
    text: bytes
    encoding: str = "identity"
    missing: int = 0
    gap: float | None = None


def said(**message: Any) -> dict[str, Any]:
    """One part of an answer."""
    return {
        "model": "qwen3:8b",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": "", **message},
        "done": False,
    }


def done(**beside: Any) -> dict[str, Any]:
    """The last part of an answer."""
    return {**said(), "done": True, "done_reason": "stop", **beside}


def called(name: str, **arguments: Any) -> dict[str, Any]:
    """A part with a call."""
    return said(tool_calls=[{"function": {"name": name, "arguments": arguments}}])


class LineServer:
    """The server; ends when the block is left.

    Each request of a path is answered by what was given for it next; the last one stays.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        """Path and body of each request, in order."""
        self._answers: dict[str, list[Answer]] = {}

    def give(
        self,
        path: str,
        *lines: Line,
        status: int = 200,
        encoding: str = "identity",
        missing: int = 0,
        gap: float | None = None,
    ) -> None:
        """Answer one request of a path with these lines.

        Args:
            path: Which.
            *lines: JSON, or whatever a test wants.
            status: Of the response.
            encoding: What the response says that it is packed by.
            missing: Bytes that it says will come, and never do.
            gap: Seconds between repeats of the answer, for about five seconds; None for no repeat.
        """
        text = b"".join(line if isinstance(line, bytes) else _line(line) for line in lines)
        self._answers.setdefault(path, []).append(Answer(status, text, encoding, missing, gap))

    def forget(self, path: str) -> None:
        """Give no answers any more at a path."""
        self._answers.pop(path, None)

    def bodies(self, path: str) -> Sequence[Any]:
        """The requests at a path."""
        return [body for asked, body in self.requests if asked == path]

    def __enter__(self) -> Self:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", "0"))
                outer.requests.append((self.path, json.loads(self.rfile.read(length) or b"null")))
                answer = outer._next(self.path)
                self.send_response(answer.status)
                self.send_header("Content-Type", "application/x-ndjson")
                self.send_header("Content-Encoding", answer.encoding)
                if answer.gap is None:
                    self.send_header("Content-Length", str(len(answer.text) + answer.missing))
                self.end_headers()
                self.wfile.write(answer.text)
                if answer.gap is not None:
                    with suppress(ConnectionError):
                        for _ in range(round(5 / answer.gap)):
                            time.sleep(answer.gap)
                            self.wfile.write(answer.text)

            do_GET = do_POST  # noqa: N815 -- the name is the library's

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _next(self, path: str) -> Answer:
        answers = self._answers.get(path)
        if not answers:
            return Answer(404, b"404 page not found")
        return answers.pop(0) if len(answers) > 1 else answers[0]


def _line(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"
