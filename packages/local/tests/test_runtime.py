"""Tasks on the real model, over a Host: streamed, paused, resumed, killed, taken over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agentic_kernel import Agent, CannotStart, Capability, Task, TaskStatus
from agentic_kernel_engine import Event, Host, Job, Limits, MemoryStore
from agentic_kernel_engine import events as vocabulary
from agentic_kernel_engine.loop import Context, ToolCall, UserMessage, continued
from agentic_kernel_engine.seams import InMemoryCapabilities, Repertoire
from agentic_kernel_engine.texts import Texts
from agentic_kernel_local import Example, LocalRuntime, find_model
from agentic_kernel_local import engine as engine_module
from agentic_kernel_local.engine import Engine, EngineOptions

# The model takes its time.
pytestmark = pytest.mark.slow

STORY = "Write a short story about a lighthouse keeper and a storm."
HELLO = "Say hello."
BRIEF = "Count from one to ten."
"""The model ends its answer to it."""
LONG = 900
"""The most tokens of an answer that a test interrupts."""
SOON = 0.01
"""Seconds between two looks at the store, where a test has two hosts on it."""


@dataclass
class Advice:
    umbrella: bool
    degrees: int


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
            store=store,
            **{
                "slots": options.slots,
                "context_tokens": options.context_tokens,
                "max_tokens": LONG,
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


async def test_a_task_succeeds_with_its_text_and_the_loop_accounts_for_it(
    runtime: LocalRuntime, listener: Listener
) -> None:
    done = await runtime.run(task(HELLO))
    assert done.status is TaskStatus.SUCCESS
    assert done.result == listener.text(done.id)
    assert listener.begun == [{"model": find_model().stem}]
    assert done.metadata["engine/stop_reason"] == "final"
    outcome = await runtime.outcome(done.id)
    assert outcome.usage.input_tokens > 10
    assert outcome.usage.output_tokens > 3
    assert [event.data["model"] for event in outcome.events if event.type == "plan.made"] == [
        find_model().stem
    ]


async def test_an_answer_that_a_limit_cuts_fails_as_on_every_other_runtime(
    runtime: LocalRuntime, listener: Listener
) -> None:
    cut = await runtime.run(task(max_tokens=8))
    assert cut.failure is not None
    assert cut.failure.code == "local/max_tokens"
    assert cut.failure.metadata["text"] == listener.text(cut.id)
    assert (await runtime.outcome(cut.id)).usage.output_tokens == 8


async def said(runtime: Host, task_id: str) -> str:
    """The durable text, as every reader joins it."""
    stored = await runtime.store.events(task_id)
    return Texts(vocabulary.from_stored(id, text) for id, text in stored).text()


async def test_the_text_of_a_plain_answer_is_live_piece_by_piece_and_durable(
    runtime: LocalRuntime, listener: Listener
) -> None:
    done = await runtime.run(task(HELLO))
    assert len(listener.pieces[done.id]) > 3
    assert await said(runtime, done.id) == done.result
    streamed = [
        event.data["text"] async for event in runtime.stream(done.id) if event.type == "run.delta"
    ]
    assert "".join(streamed) == done.result


async def paused(runtime: LocalRuntime, listener: Listener, asked: Task, pieces: int = 11) -> str:
    """Pause a Task in the middle of its answer; return its durable text."""
    await runtime.dispatch(asked)
    await listener.hears(asked.id, pieces)
    await runtime.pause(asked.id)
    found = await runtime.wait(asked.id, TaskStatus.PAUSED)
    assert found.status is TaskStatus.PAUSED
    return await said(runtime, asked.id)


async def test_a_pause_takes_effect_in_the_middle_and_resume_goes_on_from_there(
    runtime: LocalRuntime, listener: Listener
) -> None:
    whole = (await runtime.run(task(BRIEF))).result
    asked = task(BRIEF)
    kept = await paused(runtime, listener, asked, 5)
    assert kept == listener.text(asked.id)
    assert kept
    assert len(kept) < len(whole)
    assert whole.startswith(kept)
    await runtime.resume(asked.id)
    done = await runtime.wait(asked.id)
    assert done.result == whole
    assert listener.text(asked.id) == whole
    assert await said(runtime, asked.id) == whole


async def test_the_tokens_before_a_pause_count_for_the_limit_of_the_answer(
    runtime: LocalRuntime, listener: Listener
) -> None:
    asked = task(max_tokens=40)
    kept = await paused(runtime, listener, asked)
    await runtime.resume(asked.id)
    done = await runtime.wait(asked.id)
    assert done.failure is not None
    assert done.failure.code == "local/max_tokens"
    text = listener.text(asked.id)
    assert text.startswith(kept)
    outcome = await runtime.outcome(asked.id)
    (first,) = [event.data["usage"] for event in outcome.events if event.type == "run.cut"]
    second = outcome.usage.output_tokens - first["output_tokens"]
    assert 0 < second <= 40 - 11
    whole = await runtime.run(task(max_tokens=40))
    assert whole.failure is not None
    assert text == whole.failure.metadata["text"]


async def test_a_pause_takes_effect_while_a_long_prompt_is_read(
    runtime: LocalRuntime, listener: Listener
) -> None:
    asked = task("word " * 900)
    await runtime.dispatch(asked)
    await runtime.pause(asked.id)
    paused = await runtime.wait(asked.id, TaskStatus.PAUSED)
    assert paused.status is TaskStatus.PAUSED
    assert listener.text(asked.id) == ""


async def test_a_resume_with_an_extra_begins_another_answer(
    runtime: LocalRuntime, listener: Listener
) -> None:
    asked = task(BRIEF)
    partial = await paused(runtime, listener, asked, 5)
    await runtime.resume(asked.id, "Name three animals, too.")
    done = await runtime.wait(asked.id)
    assert done.status is TaskStatus.SUCCESS
    assert not done.result.startswith(partial)
    assert await said(runtime, asked.id) == done.result


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "from another host"])
@pytest.mark.rule("R11")
async def test_a_kill_leaves_what_there_was_of_the_answer(
    runtime: LocalRuntime, listener: Listener, store: MemoryStore, elsewhere: bool
) -> None:
    asked = task()
    await runtime.dispatch(asked)
    await listener.hears(asked.id, 19)
    async with control_plane(store) as other:
        await (other if elsewhere else runtime).kill(asked.id)
    killed = await runtime.wait(asked.id)
    assert killed.status is TaskStatus.CANCELLED
    kept = killed.metadata["local/partial_output"]
    assert kept == text_of(await events(runtime, asked.id))
    assert listener.text(asked.id).startswith(kept)
    if not elsewhere:
        assert len(kept) > len("".join(listener.pieces[asked.id][:16]))


async def test_what_is_taken_over_goes_on_from_the_durable_text(
    make: Make, listener: Listener, store: MemoryStore
) -> None:
    asked = task(BRIEF)
    async with make(claims=False) as first, make(claims=False, observer=None) as second:
        await first.dispatch(asked)
        await listener.hears(asked.id, 5)
        await store.leave(first.name)
        begun = await said(second, asked.id)
        await second.claim(asked.id)
        done = await second.wait(asked.id)
        # The rest may differ from that of an answer in one piece: the model adds in another order.
        assert done.result.startswith(begun)
        assert await said(second, asked.id) == done.result


@pytest.mark.parametrize("version", [pytest.param(1, marks=pytest.mark.torture), 2])
@pytest.mark.rule("R23")
async def test_a_task_of_the_release_before_goes_on_from_its_text(
    make: Make, store: MemoryStore, version: int
) -> None:
    """The state and the events are those that `LocalSubstrate` of 0.1.0, and of its next, wrote."""
    asked = task(BRIEF)

    class Earlier:
        async def execute(self, job: Job) -> None:
            place = {"at": 0} if version == 2 else {}
            job.emit(Event("run.delta", {"text": begun, **place}))
            counts = {"tokens": 4, "input_tokens": 34, "output_tokens": 4}
            said = {"said": len(begun)} if version == 2 else {}
            await job.pause({"v": version, **said, **counts})

    async with make() as runtime:
        whole = (await runtime.run(task(BRIEF))).result
        begun = whole[:12]
        async with Host(Earlier(), store, claims=False) as earlier:
            await earlier.dispatch(asked)
            await earlier.wait(asked.id, TaskStatus.PAUSED)
        await runtime.resume(asked.id)
        done = await runtime.wait(asked.id)
        assert done.result.startswith(begun)
        assert await said(runtime, asked.id) == done.result
        further = continued(done, "Name one more.")
        assert (await runtime.run(further)).status is TaskStatus.SUCCESS


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
        busy, waiting = task(), task(BRIEF)
        await runtime.dispatch(busy)
        await listener.hears(busy.id, 1)
        await runtime.dispatch(waiting)
        await runtime.pause(waiting.id)
        await runtime.wait(waiting.id, TaskStatus.PAUSED)
        assert (await runtime.get(busy.id)).status is TaskStatus.RUNNING
        await runtime.kill(busy.id)
        await runtime.resume(waiting.id)
        assert (await runtime.wait(waiting.id)).status is TaskStatus.SUCCESS


@pytest.mark.torture
async def test_a_task_that_goes_on_and_waits_for_a_slot_can_be_paused(
    make: Make, listener: Listener
) -> None:
    async with make(slots=1, context_tokens=1024) as runtime:
        busy, asked = task(), task(BRIEF)
        kept = await paused(runtime, listener, asked, 3)
        await runtime.dispatch(busy)
        await listener.hears(busy.id, 1)
        await runtime.resume(asked.id)
        await runtime.pause(asked.id)
        await runtime.wait(asked.id, TaskStatus.PAUSED)
        assert (await runtime.get(busy.id)).status is TaskStatus.RUNNING
        await runtime.kill(busy.id)
        await runtime.resume(asked.id)
        done = await runtime.wait(asked.id)
        assert done.result.startswith(kept)
        assert done.result == await said(runtime, asked.id)


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
        assert failed.failure.metadata["context_tokens"] == 256
        assert await said(runtime, failed.id)


async def test_without_a_model_nothing_starts_and_nothing_is_stored(
    make: Make, tmp_path: Path
) -> None:
    async with make(model=tmp_path / "none.gguf") as runtime:
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
    asked = task(BRIEF)
    async with make(claims=False) as able, control_plane(store) as other:
        await paused(able, listener, asked, 3)
        await other.resume(asked.id)
        async with make(model=tmp_path / "none.gguf", claims=False) as unable:
            await unable.claim(asked.id)
            await unable.wait(asked.id, TaskStatus.PAUSED)
        await able.resume(asked.id)
        done = await able.wait(asked.id)
    assert done.status is TaskStatus.SUCCESS
    assert done.result == listener.text(asked.id)


async def test_a_typed_answer_and_a_decorated_tool(make: Make) -> None:
    example = Example("What is 3 * 4?", ToolCall("multiply", {"a": 3, "b": 4}), 12, "12")
    async with make(examples=[example]) as runtime:
        done = await runtime.run("Do I need an umbrella in Bonn?", output_type=Advice)
        assert isinstance(done.unwrap(), Advice)
        called: list[tuple[int, int]] = []

        @runtime.tool(effect="read", inline=True)
        def multiply(a: int, b: int) -> int:
            """Multiply two numbers."""
            called.append((a, b))
            return a * b

        text = (await runtime.run("What is 6 * 7?", limits=Limits(max_iterations=4))).unwrap()
        assert called == [(6, 7)]
        pieces = [piece async for piece in runtime.stream_text("What is 6 * 7?")]
        assert "".join(pieces) == text
        assert "42" in text


async def test_a_schema_given_to_the_runtime_holds_for_all_its_tasks(make: Make) -> None:
    async with make(output_schema={"enum": ["red", "blue"]}) as runtime:
        done = await runtime.run(task("Which colour has the sky?"))
        assert done.result in ("red", "blue")


async def test_an_agent_and_a_session_are_carried(make: Make) -> None:
    clerk = Repertoire(instructions=["You are a clerk. Answer in one word."])
    capabilities = InMemoryCapabilities(
        [Agent("acme/clerk", (Capability("acme/bank"),))], {"acme/bank": clerk}
    )
    seen: list[Context] = []

    class Seeing:
        async def before_model(self, context: Context) -> None:
            seen.append(context)

    async with make(capabilities=capabilities, middleware=[Seeing()]) as runtime:
        first = await runtime.run(task("Remember the word tulip."))
        await runtime.run(continued(first, "Which word?"))
        assert "Remember the word tulip." in [
            entry.text for entry in seen[-1].transcript if isinstance(entry, UserMessage)
        ]
        done = await runtime.run("Hello!", agent_name="acme/clerk")
        assert done.task.status is TaskStatus.SUCCESS
        assert tuple(seen[-1].instructions) == tuple(clerk.instructions)
        with pytest.raises(CannotStart, match="acme/nobody"):
            await runtime.run("Hello!", agent_name="acme/nobody")


async def test_a_default_out_of_range_is_refused_when_the_runtime_is_made(make: Make) -> None:
    for name in ("slots", "context_tokens", "max_tokens", "threads"):
        with pytest.raises(ValueError, match=name):
            make(**{name: 0})
