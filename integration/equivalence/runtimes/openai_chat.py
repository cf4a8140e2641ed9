"""OpenAI, on Chat Completions."""

from __future__ import annotations

from agentic_kernel_engine import Host
from agentic_kernel_openai import OpenAIRuntime

from ..setting import Setting
from ..vendor import KEY, MODEL, Vendor, options


class Runtime(Vendor):
    """See `Subject`."""

    name = "OpenAI chat"
    kind = "openai"

    def host(self, url: str, setting: Setting, timeout: float) -> Host:
        return OpenAIRuntime(
            MODEL,
            tools=setting.tools,
            api="chat",
            api_key=KEY,
            base_url=f"{url}/v1",
            timeout=timeout,
            **options(setting),
        )
