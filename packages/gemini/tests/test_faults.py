"""Every fault of the wire ends in the right code, leaves no connection, and tells no secret."""

from __future__ import annotations

from typing import Any

from agentic_kernel_gemini import GeminiPlanner
from integration.peers.wire_faults import WireFaults


class TestFaults(WireFaults):
    impl = "gemini"
    key = "AIza-very-secret-0123456789"
    call_id = "call_1"

    def planner(self, url: str, **options: Any) -> GeminiPlanner:
        return GeminiPlanner("m", api_key=self.key, base_url=url, **options)
