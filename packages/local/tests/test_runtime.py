"""Tasks on the real model, over a Host: streamed, paused, resumed, killed, taken over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agentic_kernel import CannotStart, Task, TaskStatus
from agentic_kernel_engine import Event, Host, MemoryStore
from agentic_kernel_engine import events as vocabulary
from agentic_kernel_engine.texts import Texts
from agentic_kernel_local import LocalRuntime, find_model
from agentic_kernel_local import engine as engine_module
from agentic_kernel_local.engine import Engine, EngineOptions

# The model takes its time.
pytestmark = pytest.mark.slow

STORY = "Write a short story about a lighthouse keeper and a storm."
CHECKPOINT = 8
LENGTH = 32
"""Tokens of an answer: several checkpoints long."""
SOON = 0.01
"""Seconds between two looks at the store, where a test has two hosts on it."""


def task(instructions: str = STORY, **options: Any) -> Task:
    metadata = {f"local/{name}": value for name, value in options.items()}
    return Task.new(summary="", instructions=instructions, runtime_kind="local", metadata=metadata)


class Listener:
    """Collects the live text of each Task, and tells when there is enough of it."""

    def __init__(self) -> None:
        self.pieces: dict[str, list[str]] = {}
        self.begun: list[dict[str, Any]] = []
        self._moments: list[tuple[str, int, asyncio.Event]] = []

    def observe(self, task_id: str, event: Event) -> None:
        if event.type == "run.begun":
            self.begun.append(dict(event.data))
        if event.type == "run.delta" and event.id is None:
            heard = self.pieces.setdefault(task_id, [])
            heard.append(event.data["text"])
            for wanted, pieces, moment in self._moments:
                if wanted == task_id and len(heard) >= pieces:
                    moment.set()

    async def hears(self, task_id: str, pieces: int) -> None:
        moment = asyncio.Event()
        self._moments.append((task_id, pieces, moment))
        await moment.wait()

    def text(self, task_id: str) -> str:
        return "".join(self.pieces.get(task_id, ()))


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


Make = Callable[..., LocalRuntime]


@pytest.fixture
def make(engine: Engine, listener: Listener, store: MemoryStore) -> Make:
    """Makes runtimes that share the session's loaded model, and one store and listener."""

    def make(**changes: Any) -> LocalRuntime:
        options = engine.options
        return LocalRuntime(
            store,
            **{
                "slots": options.slots,
                "context_tokens": options.context_tokens,
                "max_tokens": LENGTH,
                "checkpoint_tokens": CHECKPOINT,
                "observer": listener,
                "interval": SOON,
                **changes,
            },
        )

    return make


@pytest_asyncio.fixture
async def runtime(make: Make) -> AsyncIterator[LocalRuntime]:
    runtime = make()
    async with runtime:
        yield runtime


@asynccontextmanager
async def control_plane(store: MemoryStore) -> AsyncIterator[Host]:
    async with Host(store=store, interval=SOON) as host:
        yield host


async def events(runtime: Host, task_id: str) -> list[tuple[str, Any]]:
    """The durable events so far, of the ended or paused Task, as (type, text)."""
    stored = await runtime.store.events(task_id)
    return [
        (event.type, event.data.get("text"))
        for event in (vocabulary.from_stored(id, text) for id, text in stored)
    ]


def text_of(events: list[tuple[str, Any]]) -> str:
    return "".join(text for kind, text in events if kind == "run.delta")


async def test_a_task_succeeds_with_its_text_and_what_it_cost(
    runtime: LocalRuntime, listener: Listener
) -> None:
    done = await runtime.run(task())
    assert done.status is TaskStatus.SUCCESS
    assert done.result["finish_reason"] == "length"
    assert done.result["usage"]["output_tokens"] == LENGTH
    assert done.result["usage"]["input_tokens"] > 10
    assert done.result["text"] == listener.text(done.id)
    assert listener.begun == [{"model": find_model().stem}]
    brief = await runtime.run(task("Reply with the one word: yes"))
    assert brief.result["finish_reason"] == "stop"


async def said(runtime: Host, task_id: str) -> str:
    """The durable text, as every reader joins it."""
    stored = await runtime.store.events(task_id)
    return Texts(vocabulary.from_stored(id, text) for id, text in stored).text()


async def test_text_is_live_piece_by_piece_and_durable_at_checkpoints_and_in_flushes(
    runtime: LocalRuntime, listener: Listener
) -> None:
    done = await runtime.run(task())
    stored = [event for event in await events(runtime, done.id) if event[0] == "run.delta"]
    assert len(listener.pieces[done.id]) == LENGTH
    assert LENGTH // CHECKPOINT <= len(stored) < LENGTH
    assert text_of(stored) == done.result["text"]
    streamed = [
        event.data["text"] async for event in runtime.stream(done.id) if event.type == "run.delta"
    ]
    assert "".join(streamed) == done.result["text"]


async def test_a_pause_takes_effect_in_the_middle_and_resume_goes_on_exactly(
    runtime: LocalRuntime, listener: Listener
) -> None:
    whole = (await runtime.run(task())).result["text"]
    asked = task()
    await runtime.dispatch(asked)
    await listener.hears(asked.id, 11)
    await runtime.pause(asked.id)
    paused = await runtime.wait(asked.id, TaskStatus.PAUSED)
    assert paused.status is TaskStatus.PAUSED
    kept = text_of(await events(runtime, asked.id))
    assert kept
    assert kept == listener.text(asked.id)
    assert whole.startswith(kept)
    assert len(kept) < len(whole)
    await runtime.resume(asked.id)
    done = await runtime.wait(asked.id)
    assert done.result["text"] == whole
    assert done.result["usage"]["output_tokens"] == LENGTH


async def test_a_pause_does_not_wait_for_the_next_checkpoint(
    make: Make, listener: Listener
) -> None:
    async with make(checkpoint_tokens=10_000) as runtime:
        asked = task(max_tokens=900)
        await runtime.dispatch(asked)
        await listener.hears(asked.id, 3)
        await runtime.pause(asked.id)
        paused = await runtime.wait(asked.id, TaskStatus.PAUSED)
        assert paused.status is TaskStatus.PAUSED
        assert text_of(await events(runtime, asked.id)) == listener.text(asked.id)


async def test_a_pause_takes_effect_while_a_long_prompt_is_read(
    runtime: LocalRuntime, listener: Listener
) -> None:
    asked = task("word " * 900)
    await runtime.dispatch(asked)
    await runtime.pause(asked.id)
    paused = await runtime.wait(asked.id, TaskStatus.PAUSED)
    assert paused.status is TaskStatus.PAUSED
    assert listener.text(asked.id) == ""


async def test_a_resume_with_an_extra_is_a_further_turn(
    runtime: LocalRuntime, listener: Listener
) -> None:
    asked = task()
    await runtime.dispatch(asked)
    await listener.hears(asked.id, 11)
    await runtime.pause(asked.id)
    await runtime.wait(asked.id, TaskStatus.PAUSED)
    partial = text_of(await events(runtime, asked.id))
    await runtime.resume(asked.id, "Make it about a cat named Tom.")
    done = await runtime.wait(asked.id)
    assert done.status is TaskStatus.SUCCESS
    assert done.result["text"]
    history = await events(runtime, asked.id)
    turn = [kind for kind, _ in history].index("run.turn")
    assert text_of(history[:turn]) == partial
    assert text_of(history[turn:]) == done.result["text"]


async def test_an_answer_of_exactly_max_tokens_that_is_resumed_is_not_made_longer(
    runtime: LocalRuntime, listener: Listener
) -> None:
    asked = task(max_tokens=CHECKPOINT)
    await runtime.dispatch(asked)
    await listener.hears(asked.id, CHECKPOINT)
    await runtime.pause(asked.id)
    await runtime.wait(asked.id, TaskStatus.PAUSED)
    await runtime.resume(asked.id)
    done = await runtime.wait(asked.id)
    assert done.result["text"] == listener.text(asked.id)
    assert done.result["usage"]["output_tokens"] == CHECKPOINT


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "from another host"])
@pytest.mark.rule("R11")
async def test_a_kill_leaves_what_there_was_of_the_answer(
    runtime: LocalRuntime, listener: Listener, store: MemoryStore, elsewhere: bool
) -> None:
    asked = task(max_tokens=900)
    await runtime.dispatch(asked)
    await listener.hears(asked.id, 2 * CHECKPOINT + 3)
    async with control_plane(store) as other:
        await (other if elsewhere else runtime).kill(asked.id)
    killed = await runtime.wait(asked.id)
    assert killed.status is TaskStatus.CANCELLED
    kept = killed.metadata["local/partial_output"]
    assert kept == text_of(await events(runtime, asked.id))
    assert listener.text(asked.id).startswith(kept)
    if not elsewhere:
        assert len(kept) > len("".join(listener.pieces[asked.id][: 2 * CHECKPOINT]))


async def test_what_is_taken_over_goes_on_from_the_last_checkpoint(
    make: Make, listener: Listener, store: MemoryStore
) -> None:
    asked = task()
    async with make(claims=False) as first, make(claims=False, observer=None) as second:
        whole = (await second.run(task())).result["text"]
        await first.dispatch(asked)
        await listener.hears(asked.id, CHECKPOINT + 3)
        await store.leave(first.name)
        await second.claim(asked.id)
        done = await second.wait(asked.id)
    assert done.result["text"] == whole
    assert await said(second, asked.id) == whole


async def test_tasks_run_side_by_side_on_one_loaded_model(
    make: Make, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[EngineOptions] = []
    load = engine_module._load

    def counting(options: EngineOptions, api_key: str) -> Any:
        loads.append(options)
        return load(options, api_key)

    monkeypatch.setattr(engine_module, "_load", counting)
    small = {"slots": 2, "context_tokens": 256, "max_tokens": 900}
    async with make(**small) as one, make(**small) as two:
        first, second = task(), task()
        await asyncio.gather(one.dispatch(first), two.dispatch(second))
        await asyncio.gather(listener.hears(first.id, 3), listener.hears(second.id, 3))
        assert (await one.get(first.id)).status is TaskStatus.RUNNING
        assert (await two.get(second.id)).status is TaskStatus.RUNNING
        await asyncio.gather(one.kill(first.id), two.kill(second.id))
    assert len(loads) == 1


async def test_a_task_that_waits_for_a_slot_can_be_paused(make: Make, listener: Listener) -> None:
    async with make(slots=1, context_tokens=1024) as runtime:
        busy, waiting = task(max_tokens=900), task()
        await runtime.dispatch(busy)
        await listener.hears(busy.id, 1)
        await runtime.dispatch(waiting)
        await runtime.pause(waiting.id)
        await runtime.wait(waiting.id, TaskStatus.PAUSED)
        assert (await runtime.get(busy.id)).status is TaskStatus.RUNNING
        await runtime.kill(busy.id)
        await runtime.resume(waiting.id)
        assert (await runtime.wait(waiting.id)).status is TaskStatus.SUCCESS


async def test_a_prompt_that_does_not_fit_fails_by_its_code(runtime: LocalRuntime) -> None:
    failed = await runtime.run(task("word " * 5000))
    assert failed.failure is not None
    assert failed.failure.code == "local/context_length"
    assert failed.failure.metadata["prompt_tokens"] > 5000


async def test_an_answer_that_outgrows_the_context_fails_and_keeps_its_text(make: Make) -> None:
    async with make(slots=1, context_tokens=256) as runtime:
        failed = await runtime.run(task(STORY + " Mention" + ", a ship" * 60, max_tokens=900))
        assert failed.failure is not None
        assert failed.failure.code == "local/context_length"
        assert text_of(await events(runtime, failed.id))


async def test_without_a_model_nothing_starts_and_nothing_is_stored(
    make: Make, tmp_path: Path
) -> None:
    async with make(model_path=tmp_path / "none.gguf") as runtime:
        with pytest.raises(CannotStart, match=r"none\.gguf.*not a file"):
            await runtime.dispatch(task())
        assert await runtime.find() == []


async def test_a_bad_option_is_refused_by_its_key_before_anything_is_stored(
    runtime: LocalRuntime,
) -> None:
    with pytest.raises(CannotStart, match="local/max_tokens"):
        await runtime.dispatch(task(max_tokens=0))
    assert await runtime.find() == []


async def test_a_task_taken_over_where_the_model_is_missing_is_paused_and_can_go_on(
    make: Make, listener: Listener, store: MemoryStore, tmp_path: Path
) -> None:
    asked = task()
    async with make(claims=False) as able, control_plane(store) as other:
        await able.dispatch(asked)
        await listener.hears(asked.id, CHECKPOINT + 1)
        await able.pause(asked.id)
        await able.wait(asked.id, TaskStatus.PAUSED)
        await other.resume(asked.id)
        async with make(model_path=tmp_path / "none.gguf", claims=False) as unable:
            await unable.claim(asked.id)
            await unable.wait(asked.id, TaskStatus.PAUSED)
        await able.resume(asked.id)
        done = await able.wait(asked.id)
    assert done.status is TaskStatus.SUCCESS
    assert done.result["text"] == listener.text(asked.id)


async def test_a_default_out_of_range_is_refused_when_the_runtime_is_made(make: Make) -> None:
    for name in ("slots", "context_tokens", "checkpoint_tokens", "max_tokens", "threads"):
        with pytest.raises(ValueError, match=name):
            make(**{name: 0})
