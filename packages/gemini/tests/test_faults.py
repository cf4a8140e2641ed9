"""Every fault of the wire ends in the right code, leaves no connection, and tells no secret."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from google import genai

from agentic_kernel_conformance.planner_answers import ask
from agentic_kernel_conformance.planner_contexts import QUESTION, context, tools
from agentic_kernel_engine.loop import FinalAnswer, PlannerError
from agentic_kernel_gemini import GeminiPlanner
from integration.peers.exchange import Exchange
from integration.peers.faults import Fault
from integration.peers.faulty import FaultyServer
from integration.peers.wire_faults import WireFaults


def _beginning_with(sign: bytes, *, times: int) -> Fault:
    """A good answer after signs of life, of which one comes each 50 ms."""

    def act(exchange: Exchange) -> None:
        exchange.head(200)
        for _ in range(times):
            exchange.chunk(sign)
            time.sleep(0.05)
        for piece in exchange.good():
            exchange.chunk(piece)
        exchange.send(b"0\r\n\r\n")

    return Fault("signs of life before the first event", act)


class TestFaults(WireFaults):
    impl = "gemini"
    key = "AIza-very-secret-0123456789"
    call_id = "call_1"

    def planner(self, url: str, **options: Any) -> GeminiPlanner:
        return GeminiPlanner("m", api_key=self.key, base_url=url, **options)

    @pytest.mark.parametrize(
        ("own", "sign"),
        [(False, b": keep-alive\n\n"), (False, b"\n"), (True, b"\n")],
        ids=["comments", "blank lines", "blank lines and the user's client"],
    )
    async def test_signs_of_life_before_the_first_event_do_not_count_as_silence(
        self, own: bool, sign: bytes
    ) -> None:
        """The SDK's public method gives the stream only with its first event."""
        with FaultyServer(_beginning_with(sign, times=15)) as server:
            client = genai.Client(api_key=self.key, http_options={"base_url": server.url})
            planner = (
                GeminiPlanner("m", client=client, timeout=0.5)
                if own
                else self.planner(server.url, timeout=0.5)
            )
            answer = await ask(planner, context(QUESTION, tools()))
            await planner.close()
            await client.aio.aclose()
        assert answer.plan.actions == (FinalAnswer("All is well."),)

    async def test_the_sdk_alone_reads_no_comments(self) -> None:
        """As docs/gemini.md says of a client of the user's own."""
        with FaultyServer(_beginning_with(b": keep-alive\n\n", times=1)) as server:
            client = genai.Client(api_key=self.key, http_options={"base_url": server.url})
            with pytest.raises(PlannerError, match="keep-alive") as caught:
                await ask(GeminiPlanner("m", client=client), context(QUESTION, ()))
            await client.aio.aclose()
        assert caught.value.code == "gemini/bad_response"

    async def test_a_head_that_never_comes_is_a_timeout_of_the_users_client_too(self) -> None:
        with FaultyServer("hang") as server:
            client = genai.Client(api_key=self.key, http_options={"base_url": server.url})
            began = time.monotonic()
            with pytest.raises(PlannerError) as caught:
                await ask(GeminiPlanner("m", client=client, timeout=0.2), context(QUESTION, ()))
            assert time.monotonic() - began < 1.5  # Ten timeouts are two seconds.
            await client.aio.aclose()
        assert caught.value.code == "gemini/timeout"

    async def test_an_sdk_without_the_inner_method_is_asked_by_its_public_one(self) -> None:
        class Other(genai.Client):
            @property
            def aio(self) -> Any:
                self.inner = super().aio
                models = self.inner.models
                public = {"generate_content_stream": models.generate_content_stream}
                return SimpleNamespace(models=SimpleNamespace(**public))

        with FaultyServer("closed", times=0) as server:
            client = Other(api_key=self.key, http_options={"base_url": server.url})
            answer = await ask(GeminiPlanner("m", client=client), context(QUESTION, tools()))
            await client.inner.aclose()
        assert answer.plan.actions == (FinalAnswer("All is well."),)
