"""Desk: what customers and people do with tickets, in any process on the desk's database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

from agentic_kernel import CannotStart, Task, TaskExists, TaskStatus
from agentic_kernel_engine import Event, Host, Outcome, waiting_for
from agentic_kernel_engine.loop import CONTINUES, SESSION
from agentic_kernel_engine.seams import Item, Planner, Query, Scope
from agentic_kernel_postgres import PostgresMemory, PostgresStore

from . import duty, words
from .books import Books, Refund, Ticket
from .words import NotNowError

QUEUED, IN_WORK, ON_HOLD = "queued", "in work", "on hold"
ASKS_CUSTOMER, ASKS_APPROVAL = "asks the customer", "asks for approval"
ANSWERED, FAILED, WITHDRAWN = "answered", "failed", "withdrawn"
_STATES: Final = {
    TaskStatus.NOT_STARTED: QUEUED,
    TaskStatus.RUNNING: IN_WORK,
    TaskStatus.SUCCESS: ANSWERED,
    TaskStatus.FAILURE: FAILED,
    TaskStatus.CANCELLED: WITHDRAWN,
}


class Desk:
    """The tickets, notes, orders and refunds in one schema of a Postgres database.

    Each method may be called in any process. `staff` is a Host that runs nothing; a worker has a
    Host of its own, `on_duty`.

    Args:
        database: A connection string.
        schema: The schema, made if it is not there.
        lease: Seconds after which other workers take over the tickets of one that died.
    """

    def __init__(self, database: str, schema: str = "helpdesk", lease: float = 10.0) -> None:
        self.store = PostgresStore(database, schema=schema, lease=lease)
        self.memory = PostgresMemory(database, schema=schema)
        self.books = Books(database, schema)
        self.staff = Host(store=self.store, runtime_kinds=[duty.KIND], realms=[words.TENANT])
        self._parts = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as parts:
            for part in (self.store, self.memory, self.books, self.staff):
                await parts.enter_async_context(part)
            self._parts = parts.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._parts.aclose()

    def on_duty(self, planner: Planner, *, slots: int = 2, **options: object) -> Host:
        """The Host of one worker."""
        return duty.on_duty(planner, self.store, self.memory, self.books, slots, **options)

    # What a customer does

    async def open(self, customer: str, text: str, steps: int = 20) -> Ticket:
        """Queue a new ticket of a customer.

        Raises:
            BadInputError: The name or the text is not valid.
        """
        name, said = words.customer(customer).name, words.text(text, "text")
        return await self.books.queue(name, said, steps, None)

    async def reply(self, number: int, text: str) -> Ticket:
        """Answer the agent's question; or go on with an ended ticket, as a new ticket.

        Returns:
            The ticket that goes on: the same one, or the new one.

        Raises:
            NotNowError: The ticket neither asks the customer nor has ended.
        """
        said = words.text(text, "reply")
        ticket = await self.books.ticket(number)
        record = (await self.store.load_many([ticket.task_id])).get(ticket.task_id)
        state = _state(None if record is None else record.task)
        if record is not None and state == ASKS_CUSTOMER:
            version = record.version
            by = ticket.customer
            done = await self.staff.answer(ticket.task_id, said, by=by, at_version=version)
            if not done.changed:
                raise NotNowError(f"ticket {number} moved on meanwhile; look at it and reply again")
            return ticket
        if record is None or not record.task.status.terminal:
            raise NotNowError(
                f"ticket {number} is {state}; reply when it asks the customer or has ended"
            )
        return await self.books.queue(ticket.customer, said, ticket.steps, number)

    # What people do

    async def decide(self, number: int, granted: bool, by: str, why: str = "") -> Sequence[str]:
        """Approve or deny what a ticket asks for now.

        Returns:
            What was decided, in words.

        Raises:
            NotNowError: The ticket asks for no approval.
        """
        who, task_id = words.text(by, "name"), (await self.books.ticket(number)).task_id
        task = await self._task(task_id)
        asked = None if task is None else waiting_for(task)
        if asked is None or asked["kind"] != "approval":
            raise NotNowError(f"ticket {number} is {_state(task)}; it asks for no approval")
        verb = self.staff.approve if granted else self.staff.deny
        for request in asked["requests"]:
            await verb(task_id, request["digest"], by=who, why=why)
        return [request.get("reason", "") for request in asked["requests"]]

    async def withdraw(self, number: int) -> bool:
        """End a ticket, whatever it does; False if it had ended.

        Raises:
            NotNowError: No worker has taken the ticket from the queue yet.
        """
        task_id = (await self.books.ticket(number)).task_id
        if await self._task(task_id) is None:
            raise NotNowError(f"ticket {number} is {QUEUED}; withdraw it when it is in work")
        return (await self.staff.kill(task_id)).changed

    async def remember(self, customer: str, text: str) -> None:
        """Keep a note about a customer; the agent sees it in that customer's tickets only."""
        scope, said = _scope(customer), words.text(text, "note")
        await self.memory.propose(Item(f"staff:{uuid4()}", scope, said))

    async def notes(self, customer: str) -> Sequence[str]:
        """The notes about a customer, the newest first."""
        found = await self.memory.recall(Query(_scope(customer), limit=100))
        return [hit.item.text for hit in found]

    async def tickets(
        self, customer: str | None = None, limit: int = 20
    ) -> Sequence[tuple[Ticket, str]]:
        """The newest tickets, each with its state."""
        name = None if customer is None else words.customer(customer).name
        found = await self.books.newest(name, limit)
        tasks = await self.staff.get_many([each.task_id for each in found])
        return [(each, _state(tasks.get(each.task_id))) for each in found]

    async def show(self, number: int) -> tuple[Ticket, str, Outcome | None, Sequence[Refund]]:
        """A ticket, its state, its course if a worker has taken it, and what it paid back."""
        ticket = await self.books.ticket(number)
        task = await self._task(ticket.task_id)
        if task is None:
            return ticket, QUEUED, None, ()
        outcome = await self.staff.outcome(task.id)
        return ticket, _state(task), outcome, await self.books.refunds(task.id)

    # What a worker does

    async def take(self, host: Host, slots: int, refused: Callable[[Ticket, str], None]) -> None:
        """Dispatch the oldest queued tickets, each once, however many workers do this.

        A ticket stays in the queue until its Task is stored. The id of the Task follows from the
        ticket's number, so a second dispatch is refused.

        Args:
            refused: Is told of a ticket that this Host does not take now.
        """
        for ticket in await self.books.queued(slots):
            limits = {"max_iterations": ticket.steps}
            principal = words.customer(ticket.customer)
            try:
                await host.dispatch(_task_of(ticket), principal=principal, limits=limits)
            except TaskExists:
                pass  # Another worker was faster, or died before it could say so.
            except CannotStart as error:
                refused(ticket, str(error))
                return
            await self.books.took(ticket.number)

    async def quiet(self) -> bool:
        """True if no ticket is queued or in work: each one has ended or waits for a person."""
        if await self.books.queued(1):
            return False
        running = TaskStatus.RUNNING
        return not await self.store.find(status=running, kinds=[duty.KIND], limit=1)

    async def _task(self, task_id: str) -> Task | None:
        return (await self.staff.get_many([task_id])).get(task_id)


def line_of(event: Event) -> str:
    """What an event of a ticket means, for people; empty if they need not know of it."""
    data = event.data
    match event.type:
        case "task.dispatched" | "task.claimed":
            return "taken up"
        case "step.observed":
            seen = [each for each in data["observations"] if each.get("tool")]
            return "; ".join(f"{each['tool']}: {_result(each)}" for each in seen)
        case "run.waits" if data["kind"] == "question":
            return f"asks the customer: {data['question']}"
        case "run.waits" if data["kind"] == "approval":
            reasons = ", ".join(each.get("reason", "") for each in data["requests"])
            return f"asks for approval: {reasons}"
        case "question.answered":
            return f"{data['by']} replied: {data['text']}"
        case "approval.given" | "approval.refused":
            verb = "approved" if event.type == "approval.given" else "denied"
            return f"{verb} by {data['by']}" + (f": {data['why']}" if data.get("why") else "")
        case "task.completed" | "task.failed" | "task.killed":
            return {"completed": ANSWERED, "failed": FAILED, "killed": WITHDRAWN}[event.type[5:]]
    return ""


def _result(observation: dict[str, object]) -> object:
    return observation.get("message") or observation.get("output")


def _scope(customer: str) -> Scope:
    who = words.customer(customer)
    return Scope(who.tenant, who.name, duty.SESSION)


def _task_of(ticket: Ticket) -> Task:
    metadata = {"label/customer": ticket.customer, SESSION: duty.SESSION}
    if ticket.continues is not None:
        metadata[CONTINUES] = f"ticket-{ticket.continues}"
    return Task.new(
        id=ticket.task_id,
        summary=ticket.text[:60],
        instructions=ticket.text,
        runtime_kind=duty.KIND,
        metadata=metadata,
    )


def _state(task: Task | None) -> str:
    if task is None:
        return QUEUED
    if task.status is not TaskStatus.PAUSED:
        return _STATES[task.status]
    asked = waiting_for(task)
    kinds = {"question": ASKS_CUSTOMER, "approval": ASKS_APPROVAL}
    return ON_HOLD if asked is None else kinds.get(asked["kind"], ON_HOLD)
