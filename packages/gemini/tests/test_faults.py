"""Every fault of the wire ends in the right code, leaves no connection, and tells no secret."""

from __future__ import annotations

import time
from typing import Any

from agentic_kernel_conformance.planner_answers import ask
from agentic_kernel_conformance.planner_contexts import QUESTION, context, tools
from agentic_kernel_engine.loop import FinalAnswer
from agentic_kernel_gemini import GeminiPlanner
from integration.peers.exchange import Exchange
from integration.peers.faults import Fault
from integration.peers.faulty import FaultyServer
from integration.peers.wire_faults import WireFaults


class TestFaults(WireFaults):
    impl = "gemini"
    key = "AIza-very-secret-0123456789"
    call_id = "call_1"

    def planner(self, url: str, **options: Any) -> GeminiPlanner:
        return GeminiPlanner("m", api_key=self.key, base_url=url, **options)

    async def test_comments_of_a_stream_do_not_count_as_silence(self) -> None:
        """The SDK gives the stream only with its first event."""

        def act(exchange: Exchange) -> None:
            exchange.head(200)
            for _ in range(15):
                exchange.chunk(b": keep-alive\n\n")
                time.sleep(0.05)
            for piece in exchange.good():
                exchange.chunk(piece)
            exchange.send(b"0\r\n\r\n")

        with FaultyServer(Fault("comments before the first event", act)) as server:
            planner = self.planner(server.url, timeout=0.5)
            answer = await ask(planner, context(QUESTION, tools()))
            await planner.close()
        assert answer.plan.actions == (FinalAnswer("All is well."),)
