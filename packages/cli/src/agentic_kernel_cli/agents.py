"""The Host of this command: what a Task's runtime kind asks for, as far as it is granted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Host, Job, Observer, Store

from .copilot import CopilotWork
from .grants import Grants, Wish
from .kinds import COPILOT, KINDS, LOCAL, LOCAL_TOOLS
from .local import LocalWork, find_model
from .place import Place
from .toolbox import Toolbox
from .vendors import VendorWork

AnyWork = LocalWork | VendorWork | CopilotWork


@asynccontextmanager
async def open_runtime(
    place: Place, grants: Grants, observer: Observer, kinds: Collection[str] = (LOCAL,)
) -> AsyncIterator[Host]:
    """A Host that runs the Tasks that are granted something, and no others.

    Raises:
        CannotStart: The local model is wanted, and its package or its file is missing; the
            message says what to install.
        StoreError: The place cannot be opened.
    """
    if not {LOCAL, LOCAL_TOOLS}.isdisjoint(kinds):
        for model in {each.model for each in grants.values() if each.runtime == LOCAL} or {None}:
            find_model(model)
    async with place.opened() as store, AgentHost(store, grants, observer) as host:
        yield host


class Work:
    """A substrate that hands each Task to the one that its runtime kind asks for.

    A Task that was granted nothing is not run, whoever brought it here: a child that a stored
    record names, for example.
    """

    def __init__(self, grants: Grants) -> None:
        self._grants = grants
        self._works: dict[tuple[str, str | None], AnyWork] = {}

    async def accept(self, task: Task) -> None:
        work, box = self._granted(task)
        await work.accept(task, box)

    async def execute(self, job: Job) -> Any:
        try:
            work, box = self._granted(job.task)
            _check_consent(job, box)
        except CannotStart as error:
            # It can go on where it is granted.
            await job.pause(job.state, reason=str(error))
        return await work.execute(job, box)

    async def close(self) -> None:
        """Let go of the models."""
        for work in self._works.values():
            await work.close()

    def _granted(self, task: Task) -> tuple[AnyWork, Toolbox | None]:
        """Who works on a Task, and the tools for it.

        Raises:
            CannotStart: It asks for more than it is granted.
        """
        grant = self._grants.get(task.id)
        if grant is None:
            raise CannotStart("this command was not told to run it", task.id)
        box, wish = grant.box_of(task), Wish.of(task)
        key = wish.runtime, grant.model_of(wish)
        work = self._works.get(key)
        if work is None:
            work = self._works[key] = _new(*key)
        return work, box


class AgentHost(Host):
    """Runs the Tasks that this command is told to run, and no others."""

    def __init__(self, store: Store, grants: Grants, observer: Observer) -> None:
        self._work = Work(grants)
        super().__init__(self._work, store, runtime_kinds=KINDS, observer=observer, claims=False)

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            await self._work.close()


def _new(runtime: str, model: str | None) -> AnyWork:
    if runtime == LOCAL:
        return LocalWork(model)
    return CopilotWork(model) if runtime == COPILOT else VendorWork(runtime, model)


def _check_consent(job: Job, box: Toolbox | None) -> None:
    """Refuse to carry out what an earlier command allowed by its ``--yes``, and this one does not.

    The Loop asks its policy once about each action, and the answer is stored with the plan at hand.

    Raises:
        CannotStart: A stored plan has such an action.
    """
    if box is None or box.yes:
        return
    state = job.state if isinstance(job.state, Mapping) else {}
    at_hand = state.get("at_hand")
    if not isinstance(at_hand, Mapping):
        return
    try:
        actions, verdicts = at_hand["plan"]["actions"], at_hand["verdicts"]
        allowed = [
            action["tool"]
            for action, each in zip(actions, verdicts, strict=False)
            if action["type"] == "tool_call" and each["decision"]["verdict"] == "allow"
        ]
    except (KeyError, TypeError):
        return  # No state of a Loop; who runs it will say so.
    if not set(allowed).isdisjoint(box.writing()):
        raise CannotStart(
            "an earlier command allowed its next write with --yes, and this one does not; resume "
            "it with --yes, or kill it",
            job.task.id,
        )
