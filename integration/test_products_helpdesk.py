"""The help desk passes the contracts of its parts, and does what customers and staff expect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from psycopg import sql

from agentic_kernel import Task, TaskStatus
from agentic_kernel_conformance import (
    Bounds,
    PolicyContract,
    PolicyFeatures,
    QueryContract,
    RuntimeContract,
    RuntimeFeatures,
    SubstrateContract,
    SubstrateFeatures,
    ToolContract,
    ToolFeatures,
)
from agentic_kernel_engine import Event, Host, Loop, Principal
from agentic_kernel_engine.seams import Tool

from .helpdesk_agent import Clerk
from .levels import conformance_level as conformance_level
from .postgres_server import named_schema
from .postgres_server import schema as schema
from .postgres_server import server as server
from .products.helpdesk import words
from .products.helpdesk.__main__ import main
from .products.helpdesk.books import Books
from .products.helpdesk.desk import Desk
from .products.helpdesk.duty import KIND, DeskPolicy, tools_over
from .products.helpdesk.words import BadInputError, NotNowError, NotThereError
from .substrates import desk_factory
from .substrates.following import LoopWork

ORDER, PAID = 7, 100_000_00


@pytest_asyncio.fixture
async def desk(server: str, schema: str) -> AsyncIterator[Desk]:
    """A desk with one order of Ann."""
    async with Desk(server, schema) as desk:
        await desk.books.order(ORDER, "ann", PAID)
        yield desk


# The contracts


class Tickets:
    """Tasks for the clerk: a short one, one that fails, one that goes on, one in steps."""

    def __init__(self) -> None:
        self._talking: dict[str, asyncio.Event] = {}

    def observe(self, task_id: str, event: Event) -> None:
        if event.type == "run.delta":
            self._talk(task_id).set()

    def succeed(self) -> Task:
        return _asked("hello")

    def expected_result(self, task: Task) -> str:
        return task.instructions

    def fail(self) -> Task:
        return _asked("fail")

    def run_until_stopped(self) -> Task:
        return _asked("talk")

    def pass_safe_points(self) -> Task:
        return _asked("think")

    def refused(self) -> Task:
        return Task.new(summary="", instructions="hello", runtime_kind="another-desk")

    async def until_output(self, task: Task) -> None:
        await self._talk(task.id).wait()

    def _talk(self, task_id: str) -> asyncio.Event:
        return self._talking.setdefault(task_id, asyncio.Event())


def _asked(instructions: str) -> Task:
    return Task.new(summary="", instructions=instructions, runtime_kind=KIND)


FEATURES = RuntimeFeatures(pauses=True, keeps_partial_output=True, refuses=True)


class _OneSchema:
    """Tests that need no empty desk; so they make its tables once."""

    @pytest.fixture(scope="class")
    @classmethod
    def schema(cls, server: str) -> Iterator[str]:
        with named_schema(server) as name:
            yield name


class _OnDuty(_OneSchema):
    @pytest.fixture
    def work(self) -> Tickets:
        return Tickets()

    @pytest_asyncio.fixture
    async def runtime(self, work: Tickets, desk: Desk) -> AsyncIterator[Host]:
        async with desk.on_duty(Clerk(), slots=1_000, observer=work) as host:
            yield host


# The contract of the Host and the Loop, once more.
@pytest.mark.torture
class TestDesk(_OnDuty, RuntimeContract):
    features = FEATURES


@pytest.mark.slow
class TestDeskAsQuery(_OnDuty, QueryContract):
    features = FEATURES


@pytest.mark.torture
class TestDeskAgent(SubstrateContract):
    """The agent of the desk, in processes that are killed; a script of the kit is its planner."""

    features = SubstrateFeatures(
        marks=True, pauses=True, keeps_output=True, hears=True, fails=True, refuses=True
    )
    bounds = Bounds(growth=64)
    """The last commit holds the end and the items that go into the memory afterwards."""

    @pytest.fixture
    def factory(self) -> str:
        return f"{desk_factory.__name__}:make"

    @pytest.fixture
    def work(self) -> LoopWork:
        return LoopWork()


class _ToolOfAnn:
    @pytest.fixture
    def principal(self) -> Principal:
        return words.customer("ann")

    @pytest.fixture
    def effects(self, desk: Desk, server: str, schema: str) -> Callable[[], int]:
        return lambda: len(paid(server, schema))


@pytest.mark.slow
class TestRefund(_ToolOfAnn, ToolContract):
    features = ToolFeatures(observable=True, steady=True, fails=True, distinct=True, explores=True)

    @pytest.fixture
    def tool(self, desk: Desk) -> Tool:
        return tools_over(desk.books)[1]

    @pytest.fixture
    def arguments(self) -> Sequence[Mapping[str, Any]]:
        return [{"number": ORDER, "cents": 1}, {"number": ORDER, "cents": 250}]

    @pytest.fixture
    def failing(self) -> Mapping[str, Any]:
        return {"number": ORDER, "cents": PAID + 1}


@pytest.mark.slow
class TestOrder(_ToolOfAnn, ToolContract):
    features = ToolFeatures(observable=True, steady=True, fails=True, explores=True)

    @pytest.fixture
    def tool(self, desk: Desk) -> Tool:
        return tools_over(desk.books)[0]

    @pytest.fixture
    def arguments(self) -> Sequence[Mapping[str, Any]]:
        return [{"number": ORDER}]

    @pytest.fixture
    def failing(self) -> Mapping[str, Any]:
        return {"number": ORDER + 1}


class TestDeskPolicy(PolicyContract):
    features = PolicyFeatures(deterministic=True)

    @pytest.fixture
    def policy(self) -> DeskPolicy:
        return DeskPolicy()

    @pytest.fixture
    def tools(self) -> Sequence[Tool]:
        return tools_over(Books("", "helpdesk"))


# Customers and staff


def paid(server: str, schema: str) -> list[int]:
    """The cents of every refund."""
    table = sql.Identifier(schema, "desk_refunds")
    with psycopg.connect(server) as connection:
        rows = connection.execute(sql.SQL("SELECT cents FROM {} ORDER BY key").format(table))
        return [cents for (cents,) in rows.fetchall()]


async def worked(desk: Desk) -> None:
    """A worker works until no ticket is queued or in work."""

    def refused(ticket: object, why: str) -> None:
        assert "max_in_flight" in why

    async with desk.on_duty(Clerk()) as host:
        while not await desk.quiet():
            await desk.take(host, 2, refused)
            await asyncio.sleep(0.01)


async def answer(desk: Desk, number: int) -> Any:
    """The answer to a ticket; its failure's code if it failed."""
    _, _, outcome, _ = await desk.show(number)
    assert outcome is not None
    failure = outcome.task.failure
    return outcome.answer if failure is None else failure.code


async def test_a_customer_never_sees_the_notes_and_orders_of_another(desk: Desk) -> None:
    await desk.remember("ann", "likes tea")
    await desk.remember("bob", "likes coffee")
    for name in ("ann", "bob"):
        await desk.open(name, "notes")
        await desk.open(name, f"order {ORDER}")
    await worked(desk)
    ann, bob = await answer(desk, 1), await answer(desk, 3)
    assert "likes tea" in ann
    assert "coffee" not in str(ann)
    assert "likes coffee" in bob
    assert "tea" not in str(bob)
    assert (await answer(desk, 2))["refunded"] == "0.00"
    assert "the customer has no order 7" in await answer(desk, 4)
    assert not any("coffee" in note or "bob" in note for note in await desk.notes("ann"))
    assert await desk.notes("cid") == []


async def test_a_later_ticket_knows_what_an_earlier_one_of_the_same_customer_brought(
    desk: Desk,
) -> None:
    await desk.open("ann", "hello")
    await worked(desk)
    await desk.open("ann", "notes")
    await worked(desk)
    assert await answer(desk, 2) == ["Asked: hello\nAnswered: hello"]


async def test_a_reply_answers_the_question_and_then_goes_on_as_a_new_ticket(desk: Desk) -> None:
    await desk.open("ann", "ask")
    with pytest.raises(NotNowError, match="ticket 1 is queued"):
        await desk.reply(1, "too early")
    await worked(desk)
    assert (await desk.reply(1, "the blue one")).number == 1
    await worked(desk)
    assert await answer(desk, 1) == "the blue one"
    assert (await desk.reply(1, "said")).number == 2
    await worked(desk)
    assert await answer(desk, 2) == ["ask", "the blue one", "said"]


async def test_the_steps_of_a_ticket_limit_that_ticket_only(desk: Desk) -> None:
    await desk.open("ann", "think", steps=2)
    await desk.open("ann", "think", steps=9)
    await worked(desk)
    assert await answer(desk, 1) == "engine/max_iterations"
    assert await answer(desk, 2) == "think"


async def test_a_refund_is_paid_when_a_person_approves_it(
    desk: Desk, server: str, schema: str
) -> None:
    for text in (f"refund {ORDER} 500", f"refund {ORDER} 600"):
        await desk.open("ann", text)
    await worked(desk)
    assert paid(server, schema) == []
    assert await desk.decide(1, True, "eva") == ["ann gets 5.00 back of order 7"]
    await desk.decide(2, False, "eva", "not broken")
    await worked(desk)
    assert paid(server, schema) == [500]
    assert await answer(desk, 1) == "5.00 of order 7 is paid back"
    assert await answer(desk, 2) == "policy_denied: eva refused it: not broken"
    with pytest.raises(NotNowError, match="ticket 1 is answered; it asks for no approval"):
        await desk.decide(1, True, "eva")


@pytest.mark.parametrize(
    ("name", "cents", "said"),
    [
        ("bob", 500, "the customer has no order 8"),
        ("ann", 1_001, "10.00 is left of order 8; refund at most that"),
    ],
    ids=["another's order", "more than was paid"],
)
async def test_an_approved_refund_pays_no_more_than_the_customer_paid(
    desk: Desk, server: str, schema: str, name: str, cents: int, said: str
) -> None:
    await desk.books.order(8, "ann", 1_000)
    await desk.open(name, f"refund 8 {cents}")
    await worked(desk)
    await desk.decide(1, True, "eva")
    await worked(desk)
    assert said in await answer(desk, 1)
    assert paid(server, schema) == []


async def test_a_large_refund_is_denied_before_a_person_is_asked(desk: Desk) -> None:
    await desk.open("ann", f"refund {ORDER} 50001")
    await worked(desk)
    assert "50001 cents is no refund from 1 to 50000 cents" in await answer(desk, 1)


async def test_workers_share_the_queue_and_begin_each_ticket_once(desk: Desk) -> None:
    for _ in range(5):
        await desk.open("ann", "talk")
    full: list[int] = []
    async with desk.on_duty(Clerk()) as one, desk.on_duty(Clerk()) as other:
        takes = [
            desk.take(host, 4, lambda ticket, why: full.append(ticket.number))
            for host in (one, other)
        ]
        await asyncio.gather(*takes)
        for host in (one, other):  # The first look may have met the other worker's tickets.
            await desk.take(host, 4, lambda ticket, why: None)
        states = [state for _, state in await desk.tickets()]
        assert states == ["queued", *["in work"] * 4]
        assert full
        for number in range(1, 5):
            assert await desk.withdraw(number)
            assert not await desk.withdraw(number)
            _, _, outcome, _ = await desk.show(number)
            assert outcome is not None
            assert [event.type for event in outcome.events].count("task.dispatched") == 1
    with pytest.raises(NotNowError, match="ticket 5 is queued"):
        await desk.withdraw(5)


async def test_a_worker_leaves_the_tasks_of_another_tenant(desk: Desk) -> None:
    stranger = Principal("ann", "another-desk")
    async with Host(Loop(Clerk()), desk.store, runtime_kinds=[KIND]) as elsewhere:
        await elsewhere.dispatch(_asked("talk"), principal=stranger)
    async with desk.on_duty(Clerk()) as host:
        assert await host.recover() == []
    (left,) = await desk.store.find(status=TaskStatus.RUNNING)
    assert left.owner is None


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("", "hello", "is no name; use 1 to 64 letters"),
        ("a" * 65, "hello", "is no name"),
        ("ann smith", "hello", "is no name"),
        ("house", "hello", "and not 'house'"),
        ("ann", " ", "the text has 0 characters; use 1 to 4,000"),
        ("ann", "a" * 4_001, "the text has 4,001 characters"),
        ("ann", "a\0", "a character that cannot be stored"),
        ("ann", "a\ud800", "a character that cannot be stored"),
    ],
)
async def test_a_bad_ticket_is_refused_before_it_is_queued(
    desk: Desk, name: str, text: str, said: str
) -> None:
    with pytest.raises(BadInputError, match=said):
        await desk.open(name, text)
    assert await desk.tickets() == []


async def test_an_unknown_ticket_and_an_order_that_is_taken_are_named(desk: Desk) -> None:
    for call in (desk.reply(9, "hello"), desk.decide(9, True, "eva"), desk.show(9)):
        with pytest.raises(NotThereError, match="there is no ticket 9"):
            await call
    await desk.books.order(ORDER, "ann", PAID)
    with pytest.raises(BadInputError, match="order 7 is known with another customer or amount"):
        await desk.books.order(ORDER, "bob", PAID)


@pytest.mark.parametrize("amount", ["0", "-1", "1.234", "1000000.01", "NaN", "inf", "ten", ""])
def test_a_bad_amount_is_refused(amount: str) -> None:
    with pytest.raises(BadInputError, match=r"is no amount from 0\.01 to 1000000\.00"):
        words.cents(amount)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list"], "no database; pass --database"),
        (["work", "--agent", "json:dumps2"], "no agent 'json:dumps2'"),
        (["work", "--agent", "json:loads"], "no agent"),
        (["work", "--agent", "json:JSONDecoder"], "has no method `plan`"),
        (["show", "0"], "is no number from 1 to"),
        (["open", "ann", "hello", "--steps", "0"], "is no number from 1 to 1,000"),
    ],
)
def test_a_mistake_of_the_caller_ends_with_2_and_a_remedy(
    arguments: list[str], said: str, server: str, schema: str,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("DATABASE_URL", raising=False)
    place = [] if arguments == ["list"] else ["--database", server, "--schema", schema]
    try:
        status = main([*arguments, *place])
    except SystemExit as end:
        status = int(str(end.code))
    assert status == 2
    assert said in capsys.readouterr().err


def test_a_database_that_is_not_there_ends_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--database", "postgresql://127.0.0.1:1/none"]) == 3
    assert "the database failed" in capsys.readouterr().err
