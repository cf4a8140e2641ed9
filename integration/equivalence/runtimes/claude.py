"""Claude, on the Messages API."""

from __future__ import annotations

from agentic_kernel_claude import ClaudeRuntime
from agentic_kernel_engine import Host

from ..setting import Setting
from ..vendor import KEY, MODEL, Vendor, options


class Runtime(Vendor):
    """See `Subject`."""

    name = "Claude"
    kind = "claude"

    def host(self, url: str, setting: Setting, timeout: float) -> Host:
        return ClaudeRuntime(
            MODEL,
            tools=setting.tools,
            api_key=KEY,
            base_url=url,
            timeout=timeout,
            **options(setting),
        )
