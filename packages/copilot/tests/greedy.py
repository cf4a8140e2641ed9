"""GreedyModel: the real small model, whose answers are always the same."""

from __future__ import annotations

import json
import re
import secrets
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from integration.peers.child import Child

_READY = re.compile(r'^\{"port": .*\}$')


class GreedyModel:
    """A server in a process of its own; ends when the block is left."""

    def __enter__(self) -> Self:
        self.api_key = f"sk-{secrets.token_hex(16)}"
        program = str(Path(__file__).with_name("greedy_process.py"))
        key = {"GREEDY_MODEL_KEY": self.api_key}
        self._child = Child("llama.cpp's server", [sys.executable, program], _READY, key)
        place = json.loads(self._child.ready[0])
        self.url = f"http://127.0.0.1:{place['port']}/v1"
        self.model = str(place["model"])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.close()
