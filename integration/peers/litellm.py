"""LiteLLM: another implementation of the vendors' wires, in front of the real small model.

Its proxy (PyPI ``litellm[proxy]``, MIT) cannot be in one environment with the vendors' SDKs of
today, so it runs by the interpreter of an environment of its own.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self

from .child import Child
from .llama import LlamaServer
from .node import PeerError
from .sockets import established

INTERPRETER: Final = "LITELLM_PYTHON"
"""The environment variable that says where the interpreter with LiteLLM is."""
_LISTENING: Final = re.compile(r"running on (http://127\.0\.0\.1:(\d+))")


class LiteLLMProxy:
    """LiteLLM's proxy over a `LlamaServer`, which outlives it; ends when the block is left.

    It speaks ``/v1/chat/completions``, ``/v1/responses`` and ``/v1/messages``, translates each to
    Chat Completions itself, and answers nobody without the key.
    """

    def __init__(self, llama: LlamaServer) -> None:
        """Nothing is started yet.

        Args:
            llama: The server that has the model; the proxy calls the model by the same name.
        """
        self._llama = llama
        self.model = llama.model
        self.api_key = f"sk-{secrets.token_urlsafe(24)}"
        """Random; sent as ``Authorization: Bearer`` or ``x-api-key``."""

    def __enter__(self) -> Self:
        """Start it, and wait until it listens: some seconds.

        Raises:
            PeerError: `INTERPRETER` is not set, or the proxy did not start.
        """
        python = os.environ.get(INTERPRETER)
        if not python:
            raise PeerError(
                f"there is no LiteLLM to run; set {INTERPRETER} to the interpreter of an "
                "environment with litellm[proxy]"
            )
        program = Path(__file__).with_name("litellm_process.py")
        keys = {"LITELLM_MASTER_KEY": self.api_key, "LLAMA_PEER_KEY": self._llama.api_key}
        with ExitStack() as stack:
            folder = stack.enter_context(TemporaryDirectory(prefix="litellm-"))
            file = Path(folder) / "config.json"
            file.write_text(json.dumps(self._configuration()))
            # Without -P, the module beside the program would be taken for LiteLLM.
            command = [python, "-P", str(program), str(file)]
            self._child = Child("LiteLLM's proxy", command, _LISTENING, keys)
            stack.callback(self._child.close)
            self._stack = stack.pop_all()
        self.url = self._child.ready[1]
        """Without ``/v1``."""
        self.port = int(self._child.ready[2])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def pid(self) -> int:
        return self._child.pid

    def connections(self) -> int:
        """Connections to it that are open right now."""
        return established(self.port)

    def _configuration(self) -> dict[str, object]:
        upstream = {
            "model": f"hosted_vllm/{self.model}",
            "api_base": f"{self._llama.url}/v1",
            "api_key": "os.environ/LLAMA_PEER_KEY",
            # So that Responses is its own, not the model's server's.
            "use_chat_completions_api": True,
        }
        return {"model_list": [{"model_name": self.model, "litellm_params": upstream}]}
