"""Ollama, on its chat API."""

from __future__ import annotations

from collections.abc import Mapping

from agentic_kernel_engine import Host
from agentic_kernel_ollama import OllamaRuntime

from ..setting import Setting
from ..vendor import KEY, MODEL, Vendor, options


class Runtime(Vendor):
    """See `Subject`."""

    name = "Ollama"
    kind = "ollama"
    closed: Mapping[str, str] = {
        "refusal": "its wire has no form for one: a refusal is an answer like any other",
    }
    unseen: Mapping[str, str] = {
        "structured output": "the schema is told in words as well, for models that heed no other",
    }

    def host(self, url: str, setting: Setting, timeout: float) -> Host:
        return OllamaRuntime(
            MODEL,
            tools=setting.tools,
            host=url,
            api_key=KEY,
            timeout=timeout,
            **options(setting),
        )
