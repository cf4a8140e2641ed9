"""Scenarios: each said once, for every runtime."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from agentic_kernel import Agent, Capability, Task, TaskStatus
from agentic_kernel_engine import Host, Limits, Router, tool
from agentic_kernel_engine.loop import (
    ALLOW,
    Action,
    Context,
    Decision,
    ToolCall,
    continued,
    deny,
    require_approval,
)
from agentic_kernel_engine.seams import InMemoryCapabilities, Repertoire, Tool

from .script import LONG, Answer, Asks, Call, Calls, Overflows, Refuses, Says
from .setting import Setting, Subject


@tool(effect="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="write")
async def note(text: str) -> str:
    """Write a note."""
    return f"noted: {text}"


@tool(effect="none")
async def camera() -> Any:
    """Take a picture."""
    return ["The door, at noon.", PICTURE]


@tool(effect="none")
async def broken() -> str:
    """Never works."""
    raise RuntimeError("it is broken")


PICTURE: Final = {
    "type": "image",
    "media_type": "image/png",
    "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElF"
    "TkSuQmCC",
}
"""A red dot."""


class About:
    """A policy: every call of `note` is decided like this, all else is allowed."""

    def __init__(self, decision: Decision) -> None:
        self._decision = decision

    async def authorize(self, action: Action, context: Context) -> Decision:
        noting = isinstance(action, ToolCall) and action.tool == "note"
        return self._decision if noting else ALLOW


class Stage:
    """Where a scenario plays: a runtime, and whoever uses it."""

    def __init__(self, host: Host, kind: str, elsewhere: Subject, setting: Setting) -> None:
        self.host = host
        self.kind = kind
        self.setting = setting
        self._elsewhere = elsewhere

    def task(self, instructions: str, **fields: Any) -> Task:
        return Task.new(
            summary="Scenario", instructions=instructions, runtime_kind=self.kind, **fields
        )

    async def first_piece(self) -> None:
        """Wait until the answer is on its way."""
        await self.setting.observer.seen.wait()

    async def paused(self, task: Task) -> Task:
        """The Task, once it is paused.

        Raises:
            AssertionError: It ended instead.
        """
        found = await self.host.wait(task.id, TaskStatus.PAUSED)
        assert found.status is TaskStatus.PAUSED, found
        return found

    async def both(self, task: Task) -> Task:
        """The Task, and the same work on another runtime kind, by a Router over the two."""
        kind = self._elsewhere.kind
        async with self._elsewhere.runtime(replace(self.setting, shown=[])) as host:
            router = Router({self.kind: self.host, kind: host})
            twin = Task.new(
                summary=task.summary,
                instructions=task.instructions,
                runtime_kind=kind,
                agent_name=task.agent_name,
            )
            await router.dispatch(twin)
            await router.dispatch(task)
            there, here = await host.wait(twin.id), await self.host.wait(task.id)
        assert (there.status, there.result) == (here.status, here.result)
        return here


Play = Callable[[Stage], Awaitable[Sequence[Task]]]


@dataclass(frozen=True)
class Scenario:
    """One thing that every runtime does alike."""

    name: str
    shows: str
    """What it shows, for the page."""
    script: Sequence[Answer]
    play: Play
    """What people do; returns the Tasks that are compared."""
    tools: Sequence[Tool] = ()
    offers: Sequence[str] = ()
    options: Callable[[], Mapping[str, Any]] = field(default=dict)
    picture: str = ""

    def setting(self) -> Setting:
        return Setting(self.script, self.tools, self.offers, self.options(), picture=self.picture)


def _works(instructions: str, **fields: Any) -> Play:
    async def play(stage: Stage) -> Sequence[Task]:
        return [await stage.host.run(stage.task(instructions, **fields))]

    return play


async def _approved(stage: Stage) -> Sequence[Task]:
    return [await _decided(stage, True)]


async def _refused(stage: Stage) -> Sequence[Task]:
    return [await _decided(stage, False)]


async def _decided(stage: Stage, granted: bool) -> Task:
    task = stage.task("Note that the shop is closed.")
    await stage.host.dispatch(task)
    waiting: Any = (await stage.paused(task)).metadata["engine/waiting_for"]
    (request,) = waiting["requests"]
    decide = stage.host.approve if granted else stage.host.deny
    await decide(task.id, request["digest"], by="ann", why="she knows")
    return await stage.host.wait(task.id)


async def _answered(stage: Stage) -> Sequence[Task]:
    task = stage.task("Buy a hat.")
    await stage.host.dispatch(task)
    await stage.paused(task)
    await stage.host.answer(task.id, "A red one.", by="ann")
    return [await stage.host.wait(task.id)]


async def _paused(stage: Stage) -> Sequence[Task]:
    task = stage.task("Tell a long story.")
    await stage.host.dispatch(task)
    await stage.first_piece()
    await stage.host.pause(task.id)
    await stage.paused(task)
    await stage.host.resume(task.id, "Make it short.")
    return [await stage.host.wait(task.id)]


async def _killed(stage: Stage) -> Sequence[Task]:
    task = stage.task("Tell a long story.")
    await stage.host.dispatch(task)
    await stage.first_piece()
    await stage.host.kill(task.id)
    return [await stage.host.wait(task.id)]


async def _talks(stage: Stage) -> Sequence[Task]:
    first = await stage.host.run(stage.task("What is 2 + 3?"))
    return [first, await stage.host.run(continued(first, "And what did I ask?"))]


async def _moves(stage: Stage) -> Sequence[Task]:
    return [await stage.both(stage.task("What is 2 + 3?", agent_name="acme/clerk"))]


def _clerk() -> Mapping[str, Any]:
    """An Agent whose one capability brings the tool, and says how to use it."""
    clerk = Agent("acme/clerk", (Capability("acme/sums"),))
    sums = Repertoire("Add with the tool.", [add])
    return {"capabilities": InMemoryCapabilities([clerk], {"acme/sums": sums})}


SUM: Final = Calls([Call("add", {"a": 2, "b": 3})])
NOTE: Final = Calls([Call("note", {"text": "closed"})])
NUMBER: Final = {"type": "integer"}
SHAPE: Final = {
    "type": "object",
    "properties": {"sum": NUMBER, "of": {"type": "array", "items": NUMBER}},
    "required": ["sum", "of"],
    "additionalProperties": False,
}

SCENARIOS: Final = (
    Scenario("answer", "a Task is answered", [Says("Hello.")], _works("Say hello.")),
    Scenario(
        "one tool", "a tool is called, and its result is answered with",
        [SUM, Says("It is 5.")], _works("What is 2 + 3?"), [add],
    ),
    Scenario(
        "parallel tools", "two calls of one answer",
        [Calls([*SUM.calls, *NOTE.calls]), Says("Done.")], _works("Add and note."), [add, note],
    ),
    Scenario(
        "a tool fails", "the model is told, and goes on",
        [Calls([Call("broken")]), Says("It does not work.")], _works("Try it."), [broken],
    ),
    Scenario(
        "denied", "a policy refuses a call, and the model goes on without it",
        [NOTE, Says("I may not.")], _works("Note it."), [note],
        options=lambda: {"policy": About(deny("no notes today"))},
    ),
    Scenario(
        "approval", "a call waits for a person, who approves it",
        [NOTE, Says("Noted.")], _approved, [note],
        options=lambda: {"policy": About(require_approval("a person looks at notes"))},
    ),
    Scenario(
        "approval refused", "a call waits for a person, who refuses it",
        [NOTE, Says("Left alone.")], _refused, [note],
        options=lambda: {"policy": About(require_approval("a person looks at notes"))},
    ),
    Scenario(
        "question", "the model asks, and a person answers",
        [Asks("Which colour?"), Says("A red hat.")], _answered, offers=["ask_user"],
    ),
    Scenario(
        "pause and resume", "paused in the middle of an answer, resumed with a supplement",
        [Says(LONG, slowly=True), Says("Short.")], _paused,
    ),
    Scenario(
        "kill", "killed in the middle of an answer; what there is of it is kept",
        [Says(LONG, slowly=True)], _killed,
    ),
    Scenario(
        "limit", "a run that never ends is stopped at its limit",
        [SUM, Calls([Call("add", {"a": 5, "b": 1})]), Calls([Call("add", {"a": 6, "b": 1})])],
        _works("Add for ever."), [add], options=lambda: {"limits": Limits(max_iterations=2)},
    ),
    Scenario(
        "limit of tokens", "a call that could pass the limit is not made",
        [Says("Nobody hears this.")], _works("Say hello."),
        options=lambda: {"limits": Limits(max_total_tokens=10)},
    ),
    Scenario("refusal", "the model refuses, and the Task fails", [Refuses()], _works("Do harm.")),
    Scenario(
        "context too long", "what was said does not fit the model",
        [Overflows()], _works("word " * 6_000),
    ),
    Scenario(
        "structured output", "the answer is JSON of a schema",
        [Says({"sum": 5, "of": [2, 3]})], _works("What is 2 + 3?"),
        options=lambda: {"output_schema": SHAPE},
    ),
    Scenario(
        "images of a Task", "a Task brings a picture, and the model is shown it",
        [Says("A red dot.")], _works("What is this?", metadata={"input/images": [PICTURE]}),
        picture=PICTURE["data"],
    ),
    Scenario(
        "images from a tool", "a tool returns a picture, and the model is shown it",
        [Calls([Call("camera")]), Says("A red dot.")], _works("Look at the door."), [camera],
        picture=PICTURE["data"],
    ),
    Scenario(
        "conversation", "a second Task goes on with what was said in the first",
        [SUM, Says("It is 5."), Says("What 2 + 3 is.")], _talks, [add],
    ),
    Scenario(
        "same Agent elsewhere", "an Agent with its instructions and tools, on two runtime kinds",
        [SUM, Says("It is 5.")], _moves, options=_clerk,
    ),
)  # fmt: skip
