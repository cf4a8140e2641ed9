"""ApprovalsContract: the duties of a transport of requests to people. Needs the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, ClassVar, Final

import msgspec
import pytest

from agentic_kernel_engine.seams import Approvals, Request

from .contract import Contract, supplied
from .features import ApprovalsFeatures
from .rules import broken, expect, in_time
from .unheld import unheld
from .unwinding import give_up
from .values import ACCEPTED, IDS

Open = Callable[[], Collection[Request]]
"""Returns the requests that people are shown as open, now."""

CALL: Final = Request(
    "task-1",
    "digest-1",
    "approval",
    "task-1",
    action={"type": "tool_call", "tool": "write", "arguments": {"path": "a/b"}},
    reason="it writes",
)
QUESTION: Final = Request("task-2", "digest-2", "question", "task-3", question="Which one?")
_METHODS: Final = ("wanted", "settled", "withdrawn")
_MANY: Final = 300


class ApprovalsContract(Contract):
    """A transport asks people once for each decision, and only while the decision is wanted.

    Fixtures: ``approvals``, without any request; ``open`` for the feature ``shows``. Features:
    `ApprovalsFeatures`.
    """

    contract: ClassVar[str] = "ApprovalsContract"
    features: ClassVar[ApprovalsFeatures] = ApprovalsFeatures()
    fixtures = frozenset({"approvals", "open"})

    approvals: Any = supplied("approvals")
    """The `Approvals` under test. Supplied by the adapter."""
    open: Any = supplied("open", "shows")
    """An `Open`. Supplied by the adapter for the feature ``shows``."""

    @pytest.mark.rule("kit")
    def test_the_fixture_is_a_transport(self, approvals: Approvals) -> None:
        """The transport has the methods `wanted`, `settled` and `withdrawn`."""
        missing = [name for name in _METHODS if not callable(getattr(approvals, name, None))]
        expect(not missing, "kit", f"{approvals!r:.100} has no {', '.join(missing)}")

    @pytest.mark.rule("approvals", "context")
    @pytest.mark.parametrize("request_", [CALL, QUESTION], ids=["approval", "question"])
    @pytest.mark.parametrize("last", ["settled", "withdrawn"])
    async def test_a_request_is_taken_and_ended(
        self, approvals: Approvals, request_: Request, last: str
    ) -> None:
        """Also if several Hosts report and end the same request."""
        for name in ("wanted", "wanted", last, last):
            await self._tell(approvals, name, request_)

    @pytest.mark.rule("approvals", "context")
    async def test_a_request_may_have_any_values(self, approvals: Approvals) -> None:
        """The action, the texts for people and the ids may hold any value."""
        made = [Request(id, f"id {n}", "question", id) for n, id in enumerate(IDS.values())]
        for n, value in enumerate(ACCEPTED.values()):
            action = {"type": "tool_call", "tool": "write", "arguments": {"value": value}}
            made.append(Request("task", f"value {n}", "approval", "task", action))
            if isinstance(value, str):
                made.append(Request("task", f"text {n}", "question", "task", {}, value, value))
        for each in made:
            await self._tell(approvals, "wanted", each)
        for each in made:
            await self._tell(approvals, "settled", each)

    @pytest.mark.rule("approvals")
    @pytest.mark.feature("shows")
    async def test_a_request_that_is_told_again_is_the_same(
        self, approvals: Approvals, open: Open
    ) -> None:
        """The transport shows it once, with the Task at which it is decided now."""
        for each in (CALL, QUESTION, CALL):
            await self._tell(approvals, "wanted", each)
        _expect_open(open, CALL, QUESTION)
        above = msgspec.structs.replace(CALL, task_id="the Task above")
        await self._tell(approvals, "wanted", above)
        _expect_open(open, above, QUESTION)

    @pytest.mark.rule("approvals")
    @pytest.mark.feature("shows")
    @pytest.mark.parametrize("last", ["settled", "withdrawn"])
    async def test_a_request_that_is_ended_is_shown_no_longer(
        self, approvals: Approvals, open: Open, last: str
    ) -> None:
        """Only that request is gone, even if its end names another Task."""
        for each in (CALL, QUESTION):
            await self._tell(approvals, "wanted", each)
        await self._tell(approvals, last, msgspec.structs.replace(CALL, task_id="another"))
        _expect_open(open, QUESTION)
        await self._tell(approvals, last, QUESTION)
        _expect_open(open)

    @pytest.mark.rule("apart")
    @pytest.mark.feature("shows")
    async def test_requests_at_the_same_time_do_not_mix(
        self, approvals: Approvals, open: Open
    ) -> None:
        """Several Hosts call one transport at the same time."""
        many = [msgspec.structs.replace(CALL, digest=f"d{n}", task_id=f"t{n}") for n in range(20)]
        await asyncio.gather(*(self._tell(approvals, "wanted", each) for each in many))
        await asyncio.gather(*(self._tell(approvals, "settled", each) for each in many[::2]))
        left = sorted(each.digest for each in open())
        wanted = sorted(each.digest for each in many[1::2])
        expect(left == wanted, "apart", f"of 20 told and 10 settled it shows {left}")

    @pytest.mark.rule("approvals")
    @pytest.mark.feature("shows")
    @pytest.mark.parametrize("last", ["settled", "withdrawn"])
    async def test_the_requests_of_one_task_are_ended_one_by_one(
        self, approvals: Approvals, open: Open, last: str
    ) -> None:
        """They share the Task and the origin, and may share the action; only the digest differs."""
        same = [
            msgspec.structs.replace(CALL, digest=digest) for digest in ("d1", "D1", "d1 ", "d2")
        ]
        for each in same:
            await self._tell(approvals, "wanted", each)
        for n, each in enumerate(same):
            _expect_open(open, *same[n:])
            await self._tell(approvals, last, each)
        _expect_open(open)

    @pytest.mark.rule("approvals")
    @pytest.mark.feature("shows")
    async def test_a_request_is_shown_as_it_was_told(
        self, approvals: Approvals, open: Open
    ) -> None:
        """Any values, any ids, both kinds, and more requests than fit on a page."""
        made = [Request(id, f"id {n}", "question", f"o{id}") for n, id in enumerate(IDS.values())]
        for n, value in enumerate(ACCEPTED.values()):
            action = {"type": "tool_call", "tool": "write", "arguments": {"value": value}}
            made.append(Request("task", f"value {n}", "approval", "task", action, f"reason {n}"))
            if isinstance(value, str):
                made.append(Request("task", f"text {n}", "question", "task", {}, value, value))
        made += [msgspec.structs.replace(QUESTION, digest=f"many {n}") for n in range(_MANY)]
        for each in made:
            await self._tell(approvals, "wanted", each)
        found = {each.digest: each for each in open()}
        expect(len(found) == len(made), "approvals", f"told {len(made)}, it shows {len(found)}")
        for each in made:
            shown = found.get(each.digest)
            same = msgspec.json.encode(shown) == msgspec.json.encode(each)
            expect(same, "approvals", f"{each!a:.150} is shown as {shown!a:.150}")

    @pytest.mark.rule("apart")
    @pytest.mark.feature("shows")
    async def test_several_hosts_tell_of_one_request_at_the_same_time(
        self, approvals: Approvals, open: Open
    ) -> None:
        """It is shown once; it is gone after any of them ends it, and is not told of again."""
        await asyncio.gather(*(self._tell(approvals, "wanted", CALL) for _ in range(8)))
        _expect_open(open, CALL)
        calls = [self._tell(approvals, "settled", CALL) for _ in range(4)]
        calls += [self._tell(approvals, "wanted", QUESTION) for _ in range(4)]
        await asyncio.gather(*calls)
        _expect_open(open, QUESTION)

    @pytest.mark.rule("held")
    async def test_telling_holds_nothing_up(self, approvals: Approvals) -> None:
        """A transport that waits for a server or a disk lets the event loop run meanwhile."""
        async with unheld("telling of a request") as look:
            for each in (CALL, QUESTION):
                for name in _METHODS:
                    await self._tell(approvals, name, each)
                    look()

    @pytest.mark.rule("unwind", "approvals")
    @pytest.mark.feature("shows")
    @pytest.mark.parametrize("name", _METHODS)
    async def test_a_call_that_is_given_up_is_whole_when_it_is_made_again(
        self, approvals: Approvals, open: Open, name: str
    ) -> None:
        """The other requests stay, at whatever moment the call was cancelled."""
        await self._tell(approvals, "wanted", QUESTION)
        if name != "wanted":
            await self._tell(approvals, "wanted", CALL)
        await give_up(lambda: self._tell(approvals, name, CALL), self.patience, f"`{name}`")
        await self._tell(approvals, name, CALL)
        _expect_open(open, *([CALL, QUESTION] if name == "wanted" else [QUESTION]))

    @pytest.mark.rule("unwind")
    async def test_a_call_that_is_given_up_can_be_made_again(self, approvals: Approvals) -> None:
        """A Host cancels a call after its patience, and calls again later."""
        await self._tell(approvals, "wanted", QUESTION)
        await give_up(
            lambda: self._tell(approvals, "wanted", CALL), self.patience, "telling of a request"
        )
        await self._tell(approvals, "wanted", CALL)

    async def _tell(self, approvals: Approvals, name: str, request: Request) -> None:
        before = msgspec.json.encode(request)
        what = f"`{name}` of {request!a:.150}"
        async with in_time("approvals", self.patience, what):
            try:
                await getattr(approvals, name)(request)
            except Exception as error:
                raise broken("approvals", f"{what} raised {error!r:.200}") from error
        same = msgspec.json.encode(request) == before
        expect(same, "context", f"{what} changed the request")


def _expect_open(open: Open, *wanted: Request) -> None:
    found = list(open())
    right = len(found) == len(wanted) and all(each in found for each in wanted)
    told = [(each.digest, each.task_id) for each in found]
    expect(right, "approvals", f"it shows {told}, not {[(e.digest, e.task_id) for e in wanted]}")
