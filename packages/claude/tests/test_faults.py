"""Every fault of the wire ends in the right code, leaves no connection, and tells no secret."""

from __future__ import annotations

from typing import Any, ClassVar

from agentic_kernel_claude import ClaudePlanner
from integration.peers.faulty import FaultyServer
from integration.peers.wire_faults import WireFaults


class TestFaults(WireFaults):
    impl = "claude"
    key = "sk-ant-very-secret-0123456789"
    call_id = "toolu_1"
    streamed: ClassVar[dict[str, str]] = {"cut_in_call": "max_tokens", "filtered": "refusal"}

    def planner(self, url: str, **options: Any) -> ClaudePlanner:
        return ClaudePlanner("m", api_key=self.key, base_url=url, **options)

    async def test_what_was_said_before_a_refusal_is_told(self) -> None:
        with FaultyServer("refused") as server:
            error = await self.failed(server)
        assert error.code == "claude/refusal"
        assert (error.metadata or {})["text"] == "I cannot help with that."
