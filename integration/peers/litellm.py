"""LiteLLM: another implementation of the vendors' wires, in front of the other peers.

Its proxy is the Python package ``litellm[proxy]`` (MIT). That wants older SDKs of the vendors than
the siblings do, so it runs by the interpreter of an environment of its own.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self

from .aimock import Aimock
from .child import Child
from .llama import LlamaServer
from .node import PeerError
from .sockets import established

INTERPRETER: Final = "LITELLM_PYTHON"
"""The environment variable that says where the interpreter with LiteLLM is."""
SCRIPTED: Final = "scripted"
"""The model that follows the script of the `Aimock`."""
_LISTENING: Final = re.compile(r"running on (http://127\.0\.0\.1:(\d+))")


class LiteLLMProxy:
    """LiteLLM's proxy over peers that outlive it; ends when the block is left.

    It speaks ``/v1/chat/completions``, ``/v1/responses`` and ``/v1/messages``, translates each to
    Chat Completions itself, and answers nobody without the key.
    """

    def __init__(self, llama: LlamaServer, aimock: Aimock | None = None) -> None:
        """Nothing is started yet.

        Args:
            llama: Answers as its own `LlamaServer.model`.
            aimock: Answers as `SCRIPTED`.
        """
        self._llama = llama
        self._aimock = aimock
        self.model = llama.model
        """The real one."""
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
        with TemporaryDirectory(prefix="litellm-") as folder:
            file = Path(folder) / "config.json"
            file.write_text(json.dumps(self._configuration()))
            # Without -P, the module beside the program would be taken for LiteLLM.
            command = [python, "-P", str(program), str(file)]
            self._child = Child("LiteLLM's proxy", command, _LISTENING, keys)
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
        self._child.close()

    @property
    def pid(self) -> int:
        return self._child.pid

    def connections(self) -> int:
        """Connections to it that are open right now."""
        return established(self.port)

    def _configuration(self) -> dict[str, object]:
        upstream = f"{self._llama.url}/v1"
        models = [_model(self.model, upstream, "os.environ/LLAMA_PEER_KEY")]
        if self._aimock is not None:
            models.append(_model(SCRIPTED, f"{self._aimock.url}/v1", "none"))
        # One call is one call, whatever became of the one before.
        router = {"num_retries": 0, "disable_cooldowns": True}
        return {"model_list": models, "router_settings": router}


def _model(name: str, url: str, key: str) -> dict[str, object]:
    upstream = {
        "model": f"hosted_vllm/{name}",
        "api_base": url,
        "api_key": key,
        # So that Responses is LiteLLM's own, and not passed through.
        "use_chat_completions_api": True,
    }
    return {"model_name": name, "litellm_params": upstream}
