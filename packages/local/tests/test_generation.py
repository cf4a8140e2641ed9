"""Refusals of the reader of llama.cpp's chunks, and the way of faults to the listener.

The binding is replaced only where the real one cannot be made to do it: send nonsense, or stop
without a word.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agentic_kernel_engine import TaskFailed
from agentic_kernel_local.generation import ChunkReader, End, Generation, Item, Piece, Prompt

pytestmark = pytest.mark.slow

PROGRESS = {
    "choices": [{"finish_reason": None, "delta": {"role": "assistant", "content": None}}],
    "prompt_progress": {"processed": 3, "total": 7},
}
TEXT = {
    "choices": [{"finish_reason": None, "delta": {"content": "Hi"}}],
    "timings": {"predicted_n": 2},
}
STOP = {"choices": [{"finish_reason": "stop", "delta": {}}]}
USAGE = {"choices": [], "usage": {"completion_tokens": 3}}


async def heard(*chunks: Any) -> list[Item]:
    """The calls of the listener when the binding sends these chunks."""

    def send(_: Mapping[str, Any], receive: Callable[[Any], bool]) -> None:
        for chunk in chunks:
            if receive(chunk):
                return

    generation = Generation(send, {}, lambda: None)
    generation.start()
    return [item async for item in generation]


async def test_an_answer_is_its_prompt_its_pieces_and_its_end() -> None:
    role = {"choices": [{"finish_reason": None, "delta": {"role": "assistant", "content": None}}]}
    assert await heard(PROGRESS, role, TEXT, STOP, USAGE) == [
        Prompt(3, 7), Piece("Hi", 2), End("stop", 3),
    ]  # fmt: skip


async def test_text_that_was_held_back_counts_with_what_came_before() -> None:
    late = {"choices": [{"finish_reason": None, "delta": {"content": "…"}}]}
    assert (await heard(TEXT, late, STOP, USAGE))[1] == Piece("…", 2)


async def test_a_character_that_may_not_be_stored_is_replaced() -> None:
    nul = {**TEXT, "choices": [{"finish_reason": None, "delta": {"content": "a\0b"}}]}
    assert await heard(nul, STOP, USAGE) == [Piece("a�b", 2), End("stop", 3)]


@pytest.mark.parametrize(
    "chunk",
    [
        None,
        "text",
        [],
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [], "usage": {"completion_tokens": "3"}},
        {"choices": [], "usage": {"completion_tokens": -1}},
        {"choices": [{"delta": {"content": "Hi"}}]},
        {"choices": [{"finish_reason": "boredom", "delta": {}}]},
        {"choices": [{"finish_reason": None, "delta": None}]},
        {"choices": [{"finish_reason": None, "delta": {"content": 7}}]},
        {**TEXT, "timings": {}},
        {**PROGRESS, "prompt_progress": {"processed": 3}},
        {"error": "no object"},
        {"error": {"message": "no type"}},
    ],
)
async def test_a_malformed_chunk_is_a_bad_response(chunk: Any) -> None:
    with pytest.raises(TaskFailed) as caught:
        await heard(TEXT, chunk, STOP, USAGE)
    assert caught.value.code == "local/bad_response"
    assert len(str(caught.value.metadata)) < 1000


@pytest.mark.parametrize("chunks", [(), (TEXT,), (TEXT, STOP), (TEXT, USAGE)])
async def test_an_answer_without_an_end_is_a_bad_response(chunks: tuple[Any, ...]) -> None:
    with pytest.raises(TaskFailed) as caught:
        await heard(*chunks)
    assert caught.value.code == "local/bad_response"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("exceed_context_size_error", "local/context_length"),
        ("invalid_request_error", "local/invalid_request"),
        ("not_supported_error", "local/invalid_request"),
        ("server_error", "local/server_error"),
        ("unheard_of", "local/server_error"),
    ],
)
def test_an_error_is_known_by_its_type_and_never_by_its_words(kind: str, code: str) -> None:
    with pytest.raises(TaskFailed) as caught:
        ChunkReader().read({"error": {"type": kind, "message": "exceeds the context size"}})
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("error", "code"),
    [(ValueError("bad"), "local/invalid_request"), (RuntimeError(), "local/server_error")],
)
async def test_an_exception_of_the_binding_is_a_failure_with_its_cause(
    error: Exception, code: str
) -> None:
    def fail(_: Mapping[str, Any], __: Callable[[Any], bool]) -> None:
        raise error

    generation = Generation(fail, {}, lambda: None)
    generation.start()
    with pytest.raises(TaskFailed) as caught:
        await anext(generation)
    assert caught.value.code == code
    assert caught.value.__cause__ is error


async def test_a_stopped_generation_is_over_for_who_waits_for_it() -> None:
    stopped, answers = threading.Event(), []

    def wait(_: Mapping[str, Any], receive: Callable[[Any], bool]) -> None:
        receive(TEXT)
        stopped.wait()
        answers.append(receive(TEXT))

    generation = Generation(wait, {}, lambda: None)
    generation.start()
    assert await anext(generation) == Piece("Hi", 2)
    generation.stop()
    stopped.set()
    assert [item async for item in generation] == []
    generation.thread.join()
    assert answers == [True]
