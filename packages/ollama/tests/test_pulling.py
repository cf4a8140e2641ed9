"""A model that is missing: told how to get it, or pulled."""

from __future__ import annotations

import time
from typing import Any

import pytest

from agentic_kernel import Task
from agentic_kernel_engine.events import RUN_DELTA
from agentic_kernel_engine.loop import FinalAnswer
from agentic_kernel_ollama import OllamaRuntime, pulling

from .asking import MODEL, ask, failure, planning, seen, told
from .lines import LineServer, done, said

MISSING = {"error": f"model '{MODEL}' not found"}
ANSWER = (said(content="Three."), done())
LAYER = {"status": "pulling 6a0746a1ec1a", "digest": "sha256:6a0746a1ec1a", "total": 4_000}
PULLED: tuple[dict[str, Any], ...] = (
    {"status": "pulling manifest"},
    LAYER,
    *({**LAYER, "completed": done} for done in range(0, 4_001, 10)),
    {"status": "verifying sha256 digest"},
    {"status": "success"},
)


def missing(lines: LineServer, *answer: Any) -> None:
    """The model is not there at first."""
    lines.give("/api/chat", MISSING, status=404)
    if answer:
        lines.give("/api/chat", *answer)


async def test_the_command_to_pull_it_is_told(lines: LineServer) -> None:
    missing(lines)
    async with planning(lines.url) as planner:
        error = await failure(planner, seen())
    assert error.code == "ollama/model_not_found"
    assert error.message == (
        "model 'qwen3:8b' not found; pull it with `ollama pull qwen3:8b`, or give pull=True"
    )
    assert [path for path, _ in lines.requests] == ["/api/chat"]


@pytest.mark.parametrize("stream", [True, False])
async def test_it_is_pulled_and_asked_if_the_user_says_so(lines: LineServer, stream: bool) -> None:
    missing(lines, *ANSWER)
    if not stream:
        lines = _whole(lines)
    lines.give("/api/pull", *PULLED)
    async with planning(lines.url, pull=True, stream=stream) as planner:
        pieces, plan = await ask(planner, seen())
    assert plan.actions == (FinalAnswer("Three."),)
    assert [path for path, _ in lines.requests] == ["/api/chat", "/api/pull", "/api/chat"]
    assert lines.bodies("/api/pull")[0]["model"] == MODEL
    if stream:
        progress = told(pieces, "progress").splitlines()
        assert progress[:2] == ["pulling manifest", "pulling 6a0746a1ec1a"]
        assert progress[2:-2] == [f"pulling 6a0746a1ec1a {percent}%" for percent in range(101)]
        assert progress[-2:] == ["verifying sha256 digest", "success"]
        assert told(pieces) == "Three."


def _whole(lines: LineServer) -> LineServer:
    """The answer in one."""
    lines.forget("/api/chat")
    missing(lines, {**done(), "message": said(content="Three.")["message"]})
    return lines


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([{"error": "pull model manifest: file does not exist"}], "model_not_found"),
        ([{"error": "no space left on device"}], "server_error"),
        ([{"status": "pulling manifest"}], "bad_response"),
        ([b"<html>"], "bad_response"),
    ],
)
async def test_a_pull_that_fails_is_told(lines: LineServer, parts: list[Any], code: str) -> None:
    missing(lines, *ANSWER)
    lines.give("/api/pull", *parts)
    async with planning(lines.url, pull=True) as planner:
        error = await failure(planner, seen())
    assert error.code == f"ollama/{code}"
    assert ("is its name right?" in error.message) == (code == "model_not_found")
    assert len(lines.bodies("/api/chat")) == 1


async def test_it_is_pulled_once(lines: LineServer) -> None:
    missing(lines)
    lines.give("/api/pull", *PULLED)
    async with planning(lines.url, pull=True) as planner:
        assert (await failure(planner, seen())).code == "ollama/model_not_found"
    assert len(lines.bodies("/api/pull")) == 1


async def test_a_pull_does_not_take_for_ever(
    lines: LineServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing(lines, *ANSWER)
    lines.give("/api/pull", *PULLED)
    monkeypatch.setattr(pulling, "PULL_SECONDS", 0.0)
    async with planning(lines.url, pull=True) as planner:
        assert (await failure(planner, seen())).code == "ollama/timeout"


@pytest.mark.parametrize("gap", [0.001, 0.1])
async def test_a_line_that_repeats_is_no_progress(lines: LineServer, gap: float) -> None:
    missing(lines, *ANSWER)
    lines.give("/api/pull", {**LAYER, "completed": 5}, gap=gap)
    started = time.monotonic()
    async with planning(lines.url, pull=True, timeout=0.5) as planner:
        assert (await failure(planner, seen())).code == "ollama/timeout"
        assert time.monotonic() - started < 4


async def test_an_observer_sees_the_progress(lines: LineServer) -> None:
    seen_: list[str] = []

    class Watching:
        def observe(self, task_id: str, event: Any) -> None:
            if event.type == RUN_DELTA and event.data.get("channel") == "progress":
                seen_.append(event.data["text"])

    missing(lines, *ANSWER)
    lines.give("/api/pull", *PULLED)
    async with OllamaRuntime(MODEL, host=lines.url, pull=True, observer=Watching()) as runtime:
        ended = await runtime.run(
            Task.new(summary="", instructions="How much?", runtime_kind="ollama")
        )
    assert ended.result == "Three."
    assert "pulling 6a0746a1ec1a 100%\n" in seen_
    assert "ollama/partial_output" not in ended.metadata
