"""Plans from answers, over real HTTP with the real SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentic_kernel_engine.loop import (
    AskUser,
    Delta,
    FinalAnswer,
    Remaining,
    ToolCall,
    Usage,
)
from agentic_kernel_engine.providers import Price
from integration.peers.aimock import Aimock

from .asking import MODEL, ask, failure, planning, seen, told
from .lines import LineServer, called, done, said

CALL = {"name": "add", "arguments": {"a": 1, "b": 2}}
MODES = [pytest.param(True, id="stream"), pytest.param(False, id="whole")]


@pytest.mark.parametrize("stream", MODES)
class TestOnAnIndependentServer:
    async def test_text(self, aimock: Aimock, stream: bool) -> None:
        aimock.script({"content": "It is three."}, chunkSize=4)
        async with planning(aimock.url, stream=stream) as planner:
            pieces, plan = await ask(planner, seen())
        assert plan.actions == (FinalAnswer("It is three."),)
        assert (plan.text, plan.model, plan.provider) == ("", MODEL, None)
        assert told(pieces) == ("It is three." if stream else "")
        assert len(pieces) == (3 if stream else 0)

    async def test_calls_with_text_beside_them(self, aimock: Aimock, stream: bool) -> None:
        aimock.script({"content": "So:", "toolCalls": [CALL, {**CALL, "name": "more"}]})
        async with planning(aimock.url, stream=stream) as planner:
            pieces, plan = await ask(planner, seen())
        assert plan.actions == (
            ToolCall("add", {"a": 1, "b": 2}, "call_0_0"),
            ToolCall("more", {"a": 1, "b": 2}, "call_0_1"),
        )
        assert plan.text == "So:"
        assert told(pieces, "arguments") == ('{"a":1,"b":2}' * 2 if stream else "")

    async def test_an_offer(self, aimock: Aimock, stream: bool) -> None:
        asked = {"name": "ask_user", "arguments": {"question": "Why?"}}
        aimock.script({"toolCalls": [asked]}, {"toolCalls": [{**asked, "arguments": {"x": 1}}]})
        async with planning(aimock.url, stream=stream, offers=["ask_user"]) as planner:
            _, plan = await ask(planner, seen())
            _, misfit = await ask(planner, seen())
        assert plan.actions == (AskUser("Why?"),)
        assert plan.provider == {"impl": "ollama", "calls": ["call_0_0"]}
        [call] = misfit.actions
        assert isinstance(call, ToolCall)
        assert (call.tool, call.id, misfit.provider) == ("ask_user", "call_0_0", None)
        assert "each a string: question" in call.refused

    async def test_an_answer_under_a_schema_is_json(self, aimock: Aimock, stream: bool) -> None:
        aimock.script({"content": '{"sum": 3}'})
        async with planning(aimock.url, stream=stream) as planner:
            _, plan = await ask(planner, seen(output_schema={"type": "object"}, tools=[]))
        assert plan.actions == (FinalAnswer({"sum": 3}),)

    async def test_the_connection_serves_the_next_call(self, aimock: Aimock, stream: bool) -> None:
        aimock.load([{"match": {}, "response": {"content": "Yes."}}])
        async with planning(aimock.url, stream=stream) as planner:
            for _ in range(5):
                await ask(planner, seen())
            assert aimock.connections() == 1

    async def test_errors_have_their_codes(self, aimock: Aimock, stream: bool) -> None:
        aimock.load(
            [
                {
                    "match": {},
                    "response": {"error": {"message": "prompt is too long: 9 > 8"}, "status": 400},
                }
            ]
        )
        async with planning(aimock.url, stream=stream) as planner:
            error = await failure(planner, seen())
        assert (error.code, error.message) == (
            "ollama/context_length",
            "prompt is too long: 9 > 8",
        )


@pytest.mark.parametrize("stream", MODES)
async def test_the_first_of_several_calls_is_all_if_the_user_says_so(
    aimock: Aimock, stream: bool
) -> None:
    aimock.script({"toolCalls": [CALL, {**CALL, "name": "more"}]})
    async with planning(aimock.url, stream=stream, parallel_tool_calls=False) as planner:
        _, plan = await ask(planner, seen())
    assert plan.actions == (ToolCall("add", {"a": 1, "b": 2}, "call_0_0"),)


async def test_calls_are_named_by_their_step(aimock: Aimock) -> None:
    aimock.script({"toolCalls": [CALL]})
    async with planning(aimock.url) as planner:
        _, plan = await ask(planner, seen(step=7))
    [call] = plan.actions
    assert isinstance(call, ToolCall)
    assert call.id == "call_7_0"


class TestThinking:
    async def test_it_is_told_and_kept_for_the_calls_that_follow(self, lines: LineServer) -> None:
        parts = [said(thinking="Hm, "), said(thinking="add."), called("add", a=1, b=2), done()]
        lines.give("/api/chat", *parts)
        async with planning(lines.url) as planner:
            pieces, plan = await ask(planner, seen())
        assert pieces[:2] == [Delta("Hm, ", "reasoning"), Delta("add.", "reasoning")]
        assert plan.reasoning == "Hm, add."
        assert plan.provider == {"impl": "ollama", "items": [{"thinking": "Hm, add."}]}

    async def test_behind_a_final_answer_nobody_wants_it_again(self, lines: LineServer) -> None:
        lines.give("/api/chat", said(thinking="Hm."), said(content="Three."), done())
        async with planning(lines.url) as planner:
            _, plan = await ask(planner, seen())
        assert (plan.reasoning, plan.provider) == ("Hm.", None)

    async def test_thinking_alone_is_no_answer(self, lines: LineServer) -> None:
        lines.give("/api/chat", said(thinking="Hm."), done())
        async with planning(lines.url) as planner:
            assert (await failure(planner, seen())).code == "ollama/bad_response"


class TestUsage:
    async def used(self, lines: LineServer, last: Any, left: Remaining, **options: Any) -> Usage:
        lines.give("/api/chat", said(content="Three."), last)
        async with planning(lines.url, **options) as planner:
            seen_ = seen(remaining=left, tools=[])
            worst = planner.worst_case(seen_)
            _, plan = await ask(planner, seen_)
        assert plan.usage.input_tokens <= worst.input_tokens
        assert plan.usage.output_tokens <= worst.output_tokens
        assert plan.usage.cost <= worst.cost
        return plan.usage

    async def test_tokens_are_counted_and_cost_nothing(self, lines: LineServer) -> None:
        last = done(prompt_eval_count=26, eval_count=3)
        assert await self.used(lines, last, Remaining(9, cost=1.0)) == Usage(26, 3)

    async def test_where_a_price_is_given_they_cost_it(self, lines: LineServer) -> None:
        last = done(prompt_eval_count=26, eval_count=3)
        prices = {MODEL: Price(1e6, 2e6)}
        used = await self.used(lines, last, Remaining(9, cost=1e6), prices=prices)
        assert used == Usage(26, 3, cost=32.0)

    async def test_a_server_that_does_not_count_lifts_no_limit(self, lines: LineServer) -> None:
        """Ollama leaves a count of nothing out, also that of a prompt it had in its cache."""
        options = {"options": {"num_ctx": 512}}
        left = Remaining(9, input_tokens=100_000)
        assert await self.used(lines, done(eval_count=3), left, **options) == Usage(512, 3)
        assert await self.used(lines, done(eval_count=3), Remaining(9)) == Usage(0, 3)

    async def test_counts_that_cannot_be_are_no_answer(self, lines: LineServer) -> None:
        lines.give("/api/chat", said(content="x"), done(eval_count=-1))
        lines.give("/api/chat", said(content="x"), done(eval_count=10**15))
        lines.give("/api/chat", said(content="x"), done(eval_count="many"))
        async with planning(lines.url) as planner:
            for _ in range(3):
                assert (await failure(planner, seen())).code == "ollama/bad_response"

    async def test_durations_are_kept_in_nanoseconds(self, lines: LineServer) -> None:
        taken = {"total_duration": 5_043_500_667, "load_duration": 5_025_959}
        lines.give("/api/chat", said(content="x"), done(**taken, eval_duration=0))
        async with planning(lines.url) as planner:
            _, plan = await ask(planner, seen())
        assert plan.provider == {"impl": "ollama", "durations": taken}

    async def test_a_price_that_is_missing_is_told_before_a_call(self, lines: LineServer) -> None:
        async with planning(lines.url, prices={"other": Price(1, 1)}) as planner:
            assert planner.worst_case(seen()).cost == 0
            error = await failure(_forecast(planner), seen(remaining=Remaining(9, cost=1.0)))
        assert error.code == "ollama/no_price"
        assert lines.requests == []


def _forecast(planner: Any) -> Any:
    """Asks for the forecast in the place of the plan."""

    class Forecast:
        async def plan(self, context: Any) -> Any:
            return planner.worst_case(context)

    return Forecast()


class TestLines:
    async def test_what_ends_a_line_elsewhere_ends_none_here(self, lines: LineServer) -> None:
        odd = "a\u0085b\u2028c\u2029d\u00c2é€\u2027"
        lines.give("/api/chat", said(content=odd), done())
        async with planning(lines.url) as planner:
            pieces, plan = await ask(planner, seen())
        assert plan.actions == (FinalAnswer(odd),)
        assert told(pieces) == odd

    async def test_an_answer_is_whole_though_its_connection_breaks_behind_it(
        self, lines: LineServer
    ) -> None:
        lines.give("/api/chat", said(content="Three."), done(), missing=9)
        async with planning(lines.url) as planner:
            _, plan = await ask(planner, seen())
        assert plan.actions == (FinalAnswer("Three."),)

    @pytest.mark.parametrize(
        "parts",
        [
            pytest.param([said(content="x")], id="no end"),
            pytest.param([done()], id="nothing said"),
            pytest.param([done(done_reason="load")], id="only loaded"),
            pytest.param([said(content="x"), done(), done()], id="two ends"),
            pytest.param([done(), said(content="x")], id="a piece behind the end"),
            pytest.param([said(content="x\ud800"), done()], id="half a character"),
            pytest.param([said(content="x\0"), done()], id="NUL"),
            pytest.param([said(content=3), done()], id="a number for a text"),
            pytest.param([said(tool_calls=[{"function": {}}]), done()], id="a call of nothing"),
            pytest.param([called("", a=1), done()], id="a call without a name"),
            pytest.param([called("add", a=1 << 70), done()], id="a number beyond all"),
            pytest.param([{"model": "m", "done": True}], id="no message"),
            pytest.param([b"[]\n"], id="a list"),
            pytest.param([{**said(content="x"), "model": "m\0"}, done()], id="NUL in a name"),
        ],
    )
    async def test_what_is_inconsistent_is_no_answer(
        self, lines: LineServer, parts: list[Any]
    ) -> None:
        lines.give("/api/chat", *map(_ascii, parts))
        async with planning(lines.url) as planner:
            assert (await failure(planner, seen())).code == "ollama/bad_response"

    @pytest.mark.parametrize(
        ("said_", "code"),
        [
            ("model 'qwen3:8b' not found", "model_not_found"),
            ('model "qwen3:8b" not found, try pulling it first', "model_not_found"),
            ("server busy, please try again.  maximum pending requests exceeded", "overloaded"),
            ("the input length exceeds the context length", "context_length"),
            ("unauthorized", "authentication"),
            ("you (me) have reached your weekly usage limit, upgrade for higher limits", "quota"),
            ("llama runner process has terminated", "server_error"),
        ],
    )
    async def test_an_error_within_a_stream_has_a_code(
        self, lines: LineServer, said_: str, code: str
    ) -> None:
        lines.give("/api/chat", said(content="x"), {"error": said_})
        async with planning(lines.url) as planner:
            error = await failure(planner, seen())
        assert error.code == f"ollama/{code}"
        assert error.message.startswith(said_)

    @pytest.mark.parametrize("stream", MODES)
    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (b'{"error": "no"}', "no"),
            (b'{"error": {"message": "no"}}', "no"),
            (b"no", "no"),
            (b'["no"]', '["no"]'),
            (b"", "the server answered with status 403, and gave no message"),
        ],
    )
    async def test_an_error_of_any_form_keeps_its_status(
        self, lines: LineServer, body: bytes, message: str, stream: bool
    ) -> None:
        lines.give("/api/chat", body, status=403)
        async with planning(lines.url, stream=stream) as planner:
            error = await failure(planner, seen())
        assert (error.code, error.message) == ("ollama/permission", message)


def _ascii(part: Any) -> Any:
    """A line with escapes, where a text could not be encoded otherwise."""
    return part if isinstance(part, bytes) else json.dumps(part).encode() + b"\n"
