"""Faults of the wire, for the planners of vendors whose codes are alike.

Each fault ends in the right code, leaves no connection, and tells no secret.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import unquote

import pytest

from agentic_kernel_conformance.planner_answers import Answer, ask
from agentic_kernel_conformance.planner_contexts import QUESTION, context, tools
from agentic_kernel_engine.loop import PlannerError, ToolCall

from .exchange import Exchange
from .faults import Fault
from .faulty import FaultyServer

MODES = [pytest.param(True, id="stream"), pytest.param(False, id="whole")]

CODES = {
    "status_400": "invalid_request",
    "status_401": "authentication",
    "status_402": "quota",
    "status_403": "permission",
    "status_404": "not_found",
    "status_408": "timeout",
    "status_409": "server_error",
    "status_413": "request_too_large",
    "status_422": "invalid_request",
    "status_500": "server_error",
    "status_502": "server_error",
    "status_503": "overloaded",
    "status_504": "timeout",
    "status_529": "overloaded",
    "context_length": "context_length",
    "quota": "quota",
    "rate_limit": "rate_limit",
    "closed": "connection",
    "cut": "connection",
    "not_json": "bad_response",
    "not_json_body": "bad_response",
    "not_json_event": "bad_response",
    "other_json": "bad_response",
    "nothing": "bad_response",
    "gzip_bomb": "bad_response",
    "redirect_metadata": "bad_response",
    "redirect_ipv6": "bad_response",
    "redirect_mapped": "bad_response",
    "redirect_decimal": "bad_response",
    "redirect_octal": "bad_response",
    "secret_echoed": "authentication",
    "message_escapes": "invalid_request",
}
"""By fault; the same whether the answer is streamed or not."""

STREAMED = {
    "ends_early": "bad_response",
    "duplicated": "bad_response",
    "reversed": "bad_response",
    "breaks": "overloaded",
    "secret_in_stream": "overloaded",
    "arguments_not_json": "bad_response",
    "arguments_not_object": "bad_response",
    "arguments_nan": "bad_response",
    "arguments_surrogate": "bad_response",
    "arguments_deep": "bad_response",
    "cut_in_call": "bad_response",
    "cut_in_text": "max_tokens",
    "filtered": "content_filter",
    "empty_answer": "bad_response",
}
"""The codes of faults that only a stream can have; a vendor may have others for some of them."""

REMNANTS: Mapping[str, Callable[[str], str]] = {
    "the end": lambda key: f"...{key[-10:]}",
    "all but the first character": lambda key: key[1:],
    "the middle": lambda key: f"{key[6:-1]}*",
    "zero-width characters": "\u200b".join,
    "a soft hyphen": lambda key: f"{key[:9]}\xad{key[9:]}",
    "a byte order mark and a joiner": lambda key: f"{key[:7]}\ufeff{key[7:12]}\u2060{key[12:]}",
    "spaces": " ".join,
    "a tab": lambda key: f"{key[:12]}\t{key[12:]}",
    "several line breaks": lambda key: f"{key[:12]}\n\n\n\n{key[12:]}",
    "a line break in JSON": lambda key: f"{key[:12]}\\n{key[12:]}",
    "a percent-encoded line break": lambda key: f"{key[:12]}%0D%0A{key[12:]}",
    "a percent-encoded zero-width space": lambda key: f"{key[:12]}%E2%80%8B{key[12:]}",
    "percent-encoded and split": lambda key: "\u200b".join(f"%{ord(each):02x}" for each in key),
    "the end, percent-encoded": lambda key: "".join(f"%{ord(each):02X}" for each in key[-10:]),
    "an escape of JSON": lambda key: f"{key[:12]}\\u200b{key[12:]}",
    "an entity of HTML": lambda key: f"{key[:12]}&#8203;{key[12:]}",
    "a named entity of HTML": lambda key: f"{key[:12]}&ZeroWidthSpace;{key[12:]}",
}
"""How a server quotes a key in part, or with something in it."""


class WireFaults:
    """The tests; a subclass names the vendor and makes its planner."""

    impl: ClassVar[str]
    """The first part of its codes."""
    key: ClassVar[str]
    call_id: ClassVar[str]
    """The id of the server's first call."""
    streamed: ClassVar[dict[str, str]] = {}
    """The codes of faults of a stream where they differ from `STREAMED`."""

    def planner(self, url: str, **options: Any) -> Any:
        """A planner of the vendor that asks this server."""
        raise NotImplementedError

    async def failed(
        self, server: FaultyServer, *, stream: bool = True, **options: Any
    ) -> PlannerError:
        """The error of a call at this server; its connection and redirects are checked."""
        planner = self.planner(server.url, stream=stream, **options)
        with pytest.raises(PlannerError) as caught:
            await ask(planner, context(QUESTION, tools()))
        error = caught.value
        assert self.key not in f"{error} {error.metadata} {error.__cause__}"
        await planner.close()
        await asyncio.to_thread(server.wait_closed)
        assert server.followed == 0
        return error

    async def answered(self, server: FaultyServer) -> Answer:
        planner = self.planner(server.url)
        try:
            return await ask(planner, context(QUESTION, tools()))
        finally:
            await planner.close()

    @pytest.mark.parametrize("stream", MODES)
    @pytest.mark.parametrize("fault", CODES)
    async def test_a_fault_has_its_code(self, fault: str, stream: bool) -> None:
        with FaultyServer(fault) as server:
            error = await self.failed(server, stream=stream)
        assert error.code == f"{self.impl}/{CODES[fault]}"

    @pytest.mark.parametrize("stream", MODES)
    async def test_a_redirect_is_told_with_its_remedy(self, stream: bool) -> None:
        with FaultyServer("redirect_ipv6") as server:
            error = await self.failed(server, stream=stream)
        assert "status 307, and no redirects are followed; check the address" in error.message
        assert (error.metadata or {})["status"] == 307

    @pytest.mark.parametrize("form", REMNANTS.values(), ids=REMNANTS)
    async def test_no_part_of_a_quoted_key_is_told(self, form: Callable[[str], str]) -> None:
        def act(exchange: Exchange) -> None:
            exchange.refuse(401, f"Incorrect API key provided: {form(exchange.secret)}!")

        with FaultyServer(Fault("401 with a part of the key", act)) as server:
            error = await self.failed(server)
        told = re.sub(r"[^!-~]|%0D%0A|\\n", "", unquote(error.message))
        assert "[redacted]" in told
        assert told.startswith("IncorrectAPIkeyprovided:")
        assert told.endswith("!")
        assert not any(self.key[at : at + 8] in told for at in range(len(self.key) - 7))

    @pytest.mark.parametrize("fault", STREAMED)
    async def test_a_fault_of_a_stream_has_its_code(self, fault: str) -> None:
        with FaultyServer(fault) as server:
            error = await self.failed(server)
        assert error.code == f"{self.impl}/{self.streamed.get(fault, STREAMED[fault])}"

    @pytest.mark.parametrize(
        ("fault", "stream"),
        [("hang", True), ("hang", False), ("hang_after_head", True), ("stall", True)],
    )
    async def test_a_silent_server_is_given_up(self, fault: str, stream: bool) -> None:
        with FaultyServer(fault) as server:
            error = await self.failed(server, stream=stream, timeout=0.2)
        assert error.code == f"{self.impl}/timeout"

    async def test_events_without_a_piece_keep_no_call_alive(self) -> None:
        with FaultyServer("endless_silence") as server:
            error = await self.failed(server, timeout=0.05)
        assert error.code == f"{self.impl}/timeout"

    @pytest.mark.slow
    @pytest.mark.parametrize("stream", MODES)
    async def test_a_response_without_an_end_is_refused(self, stream: bool) -> None:
        with FaultyServer("endless") as server:
            error = await self.failed(server, stream=stream)
        assert error.code == f"{self.impl}/bad_response"
        assert "67,108,864 bytes" in error.message

    async def test_a_server_that_is_not_there(self) -> None:
        with FaultyServer("closed") as server:
            url = server.url
        planner = self.planner(url)
        with pytest.raises(PlannerError) as caught:
            await ask(planner, context(QUESTION, tools()))
        assert caught.value.code == f"{self.impl}/connection"
        await planner.close()

    @pytest.mark.parametrize(
        ("fault", "wait"),
        [
            ("rate_limit", None),
            ("rate_limit_seconds", 2_000),
            ("rate_limit_ms", 2_000),
            ("rate_limit_huge", 86_400_000),
            ("rate_limit_negative", 0),
            ("rate_limit_words", None),
            ("rate_limit_injected", 2_000),
        ],
    )
    async def test_how_long_to_wait_is_told_if_the_server_says_it(
        self, fault: str, wait: int | None
    ) -> None:
        with FaultyServer(fault) as server:
            error = await self.failed(server)
        assert error.code == f"{self.impl}/rate_limit"
        assert (error.metadata or {}).get("retry_after_ms") == wait
        assert (error.metadata or {})["request_id"] == "req_peer"
        assert (error.metadata or {})["status"] == 429

    async def test_control_characters_in_a_header_break_the_connection(self) -> None:
        with FaultyServer("rate_limit_control") as server:
            error = await self.failed(server)
        assert error.code in (f"{self.impl}/rate_limit", f"{self.impl}/connection")

    async def test_what_was_said_before_a_cut_is_told(self) -> None:
        with FaultyServer("cut_in_text") as server:
            error = await self.failed(server)
        assert (error.metadata or {})["text"] == "All is "

    async def test_a_call_is_what_the_server_sent_though_it_fits_nothing(self) -> None:
        """The Loop tells the model what does not fit."""
        with FaultyServer("arguments_misfit") as server:
            answer = await self.answered(server)
        assert answer.plan.actions == (ToolCall("add", {"a": "x"}, self.call_id),)
        with FaultyServer("unknown_tool") as server:
            answer = await self.answered(server)
        assert answer.plan.actions == (ToolCall("no_such_tool", {}, self.call_id),)

    @pytest.mark.parametrize("fault", ["stall", "endless_text"])
    async def test_leaving_a_stream_closes_its_connection(self, fault: str) -> None:
        with FaultyServer(fault) as server:
            planner = self.planner(server.url)
            stream: Any = planner.plan(context(QUESTION, tools()))
            async for _ in stream:
                break
            # A planner may have asked for the model before, on a connection that is closing.
            await asyncio.to_thread(server.wait_open, 1)
            await stream.aclose()
            await asyncio.to_thread(server.wait_closed)
            await planner.close()

    @pytest.mark.parametrize(
        ("fault", "code"), [("breaks_open", "overloaded"), ("other_json_open", "bad_response")]
    )
    async def test_an_error_in_a_stream_closes_its_connection(self, fault: str, code: str) -> None:
        """Though the server leaves the stream open, and the planner lives on."""
        with FaultyServer(fault) as server:
            planner = self.planner(server.url)
            with pytest.raises(PlannerError) as caught:
                await ask(planner, context(QUESTION, tools()))
            assert caught.value.code == f"{self.impl}/{code}"
            await asyncio.to_thread(server.wait_closed)
            await planner.close()

    @pytest.mark.parametrize("fault", ["hang", "hang_after_head", "stall"])
    async def test_cancelling_a_call_closes_its_connection(self, fault: str) -> None:
        with FaultyServer(fault) as server:
            planner = self.planner(server.url)
            call = asyncio.create_task(ask(planner, context(QUESTION, tools())))
            await asyncio.to_thread(server.wait_held)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.to_thread(server.wait_closed)
            await planner.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}
