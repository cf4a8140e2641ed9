"""The engine on the real model: streaming, stopping, sharing, and what it keeps to itself."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import CannotStart
from agentic_kernel_engine import TaskFailed
from agentic_kernel_local import engine as engine_module
from agentic_kernel_local.engine import Engine, EngineOptions, Request
from agentic_kernel_local.generation import ChunkReader, End, Item, Piece, Prompt

pytestmark = pytest.mark.slow

STORY = "Write a short story about a lighthouse keeper and a storm."
ENDLESS = "Count from 1 to 400, one number per line."


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def answer(engine: Engine, max_tokens: int, *messages: dict[str, str]) -> list[Item]:
    async with engine.generate(Request(messages, max_tokens)) as generation:
        return [item async for item in generation]


def text(items: list[Item]) -> str:
    return "".join(item.text for item in items if isinstance(item, Piece))


async def ended(engine: Engine) -> None:
    """Wait until the model has stopped."""
    for generation in list(engine._running):
        await asyncio.to_thread(generation.thread.join)


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[Item]:
    """Everything that the model sent, whether somebody listened or not."""
    seen: list[Item] = []
    read = ChunkReader.read

    def recording(self: ChunkReader, chunk: Any) -> Item | None:
        item = read(self, chunk)
        if item is not None:
            seen.append(item)
        return item

    monkeypatch.setattr(ChunkReader, "read", recording)
    return seen


async def test_an_answer_comes_piece_by_piece_and_says_how_it_ended(engine: Engine) -> None:
    items = await answer(engine, 12, user(STORY))
    assert isinstance(items[0], Prompt)
    pieces = [item for item in items if isinstance(item, Piece)]
    assert [piece.tokens for piece in pieces] == list(range(1, 13))
    assert items[-1] == End("length", 12)
    items = await answer(engine, 100, user("Reply with the one word: yes"))
    assert isinstance(items[-1], End)
    assert items[-1].reason == "stop"


@pytest.mark.parametrize("tokens", [1, 9, 25])
async def test_a_partial_answer_is_continued_exactly(engine: Engine, tokens: int) -> None:
    whole = text(await answer(engine, 32, user(STORY)))
    part = text(await answer(engine, tokens, user(STORY)))
    begun = {"role": "assistant", "content": part}
    rest = text(await answer(engine, 32 - tokens, user(STORY), begun))
    assert part + rest == whole


async def test_leaving_the_block_stops_the_model_while_tokens_flow(
    engine: Engine, received: list[Item]
) -> None:
    async with engine.generate(Request([user(ENDLESS)], 900)) as generation:
        async for item in generation:
            if isinstance(item, Piece) and item.tokens >= 5:
                break
    await ended(engine)
    last = received[-1]
    assert isinstance(last, Piece)
    assert last.tokens < 100


async def test_leaving_the_block_stops_the_model_while_it_reads_a_prompt(
    engine: Engine, received: list[Item]
) -> None:
    async with engine.generate(Request([user("word " * 900)], 50)) as generation:
        first = await anext(generation)
        assert isinstance(first, Prompt)
    await ended(engine)
    last = received[-1]
    assert isinstance(last, Prompt)
    assert last.processed < last.tokens


async def side_by_side(engine: Engine, answers: int) -> list[str]:
    """In which order so many answers, asked for at once, begin and end."""
    order: list[str] = []

    async def one() -> None:
        async with engine.generate(Request([user(ENDLESS)], 12)) as generation:
            async for item in generation:
                if isinstance(item, Piece) and item.tokens == 1:
                    order.append("begins")
            order.append("ends")

    await asyncio.gather(*(one() for _ in range(answers)))
    return order


async def test_as_many_answers_as_there_are_slots_flow_side_by_side(engine: Engine) -> None:
    slots = engine.options.slots
    order = await side_by_side(engine, slots + 1)
    assert order[: slots + 1] == ["begins"] * slots + ["ends"]
    assert order.count("ends") == slots + 1


async def test_who_gives_up_waiting_for_a_slot_leaves_it_to_the_others(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "LOOK", 0.01)
    slots = engine.options.slots
    async with AsyncExitStack() as busy:
        for _ in range(slots):
            await anext(
                await busy.enter_async_context(engine.generate(Request([user(ENDLESS)], 900)))
            )
        async with engine.generate(Request([user(STORY)], 5)) as waiting:
            assert await anext(waiting) == Prompt(0, 0)
        cancelled = asyncio.create_task(answer(engine, 5, user(STORY)))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait({cancelled})
        assert cancelled.cancelled()
    assert (await side_by_side(engine, slots))[:slots] == ["begins"] * slots


async def test_a_prompt_that_does_not_fit_is_known_by_its_code(engine: Engine) -> None:
    with pytest.raises(TaskFailed) as caught:
        await answer(engine, 5, user("word " * 5000))
    assert caught.value.code == "local/context_length"
    assert caught.value.metadata is not None
    assert caught.value.metadata["context_tokens"] == engine.options.context_tokens
    assert caught.value.metadata["prompt_tokens"] > 5000


async def test_what_llama_cpp_refuses_to_do_is_an_invalid_request(engine: Engine) -> None:
    wish: Any = "hot"
    with pytest.raises(TaskFailed) as caught:
        async with engine.generate(Request([user(STORY)], 5, temperature=wish)) as generation:
            await anext(generation)
    assert caught.value.code == "local/invalid_request"


async def test_an_exception_in_the_callback_does_not_vanish(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: ChunkReader, chunk: Any) -> None:
        raise ZeroDivisionError("in the callback")

    monkeypatch.setattr(ChunkReader, "read", broken)
    with pytest.raises(ZeroDivisionError, match="in the callback"):
        await answer(engine, 5, user(STORY))


def request(url: str, key: str | None = None) -> int:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


async def test_its_port_is_on_the_loopback_and_answers_nobody_without_the_key(
    engine: Engine,
) -> None:
    assert engine.address.startswith("http://127.0.0.1:")
    for path in ("/v1/models", "/v1/chat/completions", "/props"):
        assert await asyncio.to_thread(request, engine.address + path) == 401
    assert await asyncio.to_thread(request, engine.address + "/v1/models", "guess") == 401
    assert await asyncio.to_thread(request, engine.address + "/v1/models", engine.api_key) == 200


async def test_one_process_loads_a_model_once_until_the_last_has_let_go(
    options: EngineOptions,
) -> None:
    small = EngineOptions(options.model, slots=1, context_tokens=256)
    one, two = await asyncio.gather(Engine.open(small), Engine.open(small))
    assert one is two
    await one.close()
    assert (await answer(two, 2, user("Hi")))[-1] == End("length", 2)
    await two.close()
    three = await Engine.open(small)
    assert three is not one
    await three.close()


@pytest.mark.torture
async def test_an_engine_that_is_let_go_as_soon_as_it_is_loaded_is_freed(
    options: EngineOptions,
) -> None:
    small = EngineOptions(options.model, slots=1, context_tokens=256)
    for _ in range(10):  # without an answered request, one in a few never ended
        await (await Engine.open(small)).close()


async def test_a_file_that_cannot_be_loaded_says_so_and_may_be_mended(
    options: EngineOptions, tmp_path: Path
) -> None:
    file = tmp_path / "torn.gguf"
    file.write_bytes(b"GGUF" + bytes(100))
    torn = EngineOptions(file, slots=1, context_tokens=256)
    with pytest.raises(CannotStart, match=r"cannot load the model .*torn\.gguf"):
        await Engine.open(torn)
    file.unlink()
    with pytest.raises(CannotStart, match="cannot be read"):
        await Engine.open(torn)
    file.symlink_to(options.model)
    await (await Engine.open(torn)).close()
