"""Gemini, on ``generateContent``."""

from __future__ import annotations

from collections.abc import Mapping

from agentic_kernel_engine import Host
from agentic_kernel_gemini import GeminiRuntime

from ..setting import Setting
from ..vendor import KEY, MODEL, Vendor, options


class Runtime(Vendor):
    """See `Subject`."""

    name = "Gemini"
    kind = "gemini"
    closed: Mapping[str, str] = {
        "refusal": "its wire has no form for one: a refusal is an answer like any other",
    }
    unseen: Mapping[str, str] = {}

    def host(self, url: str, setting: Setting, timeout: float) -> Host:
        return GeminiRuntime(
            MODEL,
            tools=setting.tools,
            api_key=KEY,
            base_url=f"{url}/v1beta",
            timeout=timeout,
            **options(setting),
        )
