"""Aimock: an independent scripted server for the wires of all vendors, in a process of its own.

It is the npm package ``@copilotkit/aimock`` (MIT), whose authors know nothing of this project.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from .child import Child
from .control import ask
from .node import installed, node
from .sockets import established

Fixture = Mapping[str, Any]
"""``{"match": {...}, "response": {...}, ...}``; see `Aimock`."""

_LISTENING: Final = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")
_ENDS_WITH_INPUT: Final = (
    "data:text/javascript,process.stdin.resume();process.stdin.on('end',()=>process.exit(0))"
)
_NOTHING: Final = [{"match": {"userMessage": "\u0000"}, "response": {"content": ""}}]
"""It does not start strictly without a fixture."""


@dataclass(frozen=True, slots=True)
class Received:
    """One request that it received."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case; credentials are redacted."""
    body: Mapping[str, Any]
    """In the form of Chat Completions, whatever the wire was: the instructions or system text are
    a first message, tool results are messages of the role ``tool``."""
    status: int
    """How it answered; 503 if no fixture matched."""


class Aimock:
    """The server with these fixtures; ends when the block is left.

    A fixture says which requests it answers (the first that matches does) and with what:

    - ``match``: all that is given must hold. ``userMessage`` (part of the last user message),
      ``systemMessage``, ``toolName`` (of a tool on offer), ``toolCallId`` (of the last tool
      result), ``toolResultContains``, ``hasToolResult`` (after the last user message), ``model``,
      ``turnIndex`` (how many assistant messages there are), ``sequenceIndex`` (how many requests
      with the same other conditions came before); ``{}`` matches everything.
    - ``response``: ``content`` (text, or JSON for structured output), ``toolCalls`` (``name``,
      ``arguments``, ``id``), ``blocks`` (both, in order), ``reasoning``, ``reasoningSignature``,
      ``redactedThinking``, ``usage`` (in the wire's own names; zero if not given),
      ``finishReason`` (``stop``, ``tool_calls``, ``length``, ``content_filter``); or ``error``
      (``message``, ``type``, ``code``) with ``status`` and, for 429, ``retryAfter`` in seconds.
    - beside them: ``latency`` (milliseconds between pieces), ``chunkSize`` (characters of a
      piece), ``truncateAfterChunks`` and ``disconnectAfterMs`` (cut the stream; they need a
      ``latency``, or nothing arrives before the cut), ``chaos`` (probabilities: ``dropRate``,
      ``malformedRate``, ``disconnectRate``, ``rateLimitRate``).

    The source is the package's ``dist/types.d.ts`` (``FixtureFileEntry``) and its
    ``skills/write-fixtures/SKILL.md``.

    A request that no fixture answers gets 503, so that a script that is over is an error.
    """

    def __init__(self, fixtures: Sequence[Fixture] = (), *flags: str) -> None:
        """Nothing is started yet.

        Args:
            fixtures: What it answers.
            flags: Further arguments of its command, e.g. ``--latency``, ``5``.
        """
        self._fixtures = fixtures
        self._flags = flags

    def __enter__(self) -> Self:
        program = (
            installed("aimock") / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
        )
        with TemporaryDirectory(prefix="aimock-") as folder:
            file = Path(folder) / "fixtures.json"
            file.write_text(json.dumps({"fixtures": _NOTHING}))
            command = [str(node()), "--import", _ENDS_WITH_INPUT, str(program)]
            command += ["--port", "0", "--fixtures", str(file), "--strict", *self._flags]
            self._child = Child("aimock", command, _LISTENING)
        self.url = self._child.ready[1]
        """``http://127.0.0.1:PORT``, without ``/v1``."""
        try:
            self.load(self._fixtures)
        except BaseException:
            self._child.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.close()

    @property
    def pid(self) -> int:
        return self._child.pid

    def load(self, fixtures: Sequence[Fixture]) -> None:
        """Answer with these fixtures from now on; forgets the earlier ones and all requests.

        Raises:
            HTTPError: A fixture is not valid.
        """
        self._control("POST", "reset")
        if fixtures:
            self._control("POST", "fixtures", {"fixtures": list(fixtures)})

    def script(self, *responses: Mapping[str, Any], **beside: Any) -> None:
        """Answer the first request with the first response, the second with the second, and so on.

        Args:
            beside: Given to each fixture beside its response, e.g. ``latency=20``.
        """
        self.load(
            [
                {"match": {"sequenceIndex": index}, "response": dict(response), **beside}
                for index, response in enumerate(responses)
            ]
        )

    def requests(self) -> list[Received]:
        """What it received since the fixtures were loaded, in order."""
        return [
            Received(
                entry["path"], entry["headers"], entry["body"] or {}, entry["response"]["status"]
            )
            for entry in self._control("GET", "journal")
        ]

    def connections(self) -> int:
        """Connections to it that are open right now."""
        return established(urlsplit(self.url).port or 0)

    def _control(self, method: str, name: str, body: Any = None) -> Any:
        return ask(method, f"{self.url}/__aimock/{name}", body)
