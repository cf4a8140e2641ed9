"""``python -m integration.products.helpdesk``: open, reply, list, show, work, approve, and more."""

from __future__ import annotations

import argparse
import asyncio
import inspect
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, cast

from psycopg import Error as DatabaseError
from psycopg_pool import PoolTimeout

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel_engine import Event, StoreError, drain_on_signals
from agentic_kernel_engine.loop import ToolCall
from agentic_kernel_engine.seams import Planner
from agentic_kernel_local import Example, LocalPlanner

from . import words
from .books import Ticket
from .desk import Desk, line_of
from .words import BadInputError, DeskError

LOOK = 0.2
"""Seconds between two looks of a worker at the queue."""
EXAMPLES = (
    Example(
        "What did I pay for order 31?", ToolCall("order", {"number": 31}),
        {"paid": "12.50", "refunded": "0.00"}, "You paid 12.50 for order 31.",
    ),
    Example(
        "Order 58 was too expensive. Please refund 3.00.",
        ToolCall("refund", {"number": 58, "cents": 300}), "3.00 of order 58 is paid back",
        "We paid you 3.00 back for order 58.",
    ),
)  # fmt: skip
"""What the local model is shown."""


async def open_ticket(desk: Desk, given: argparse.Namespace) -> int:
    """Queue a new ticket."""
    ticket = await desk.open(given.customer, given.text, given.steps)
    print(f"ticket {ticket.number} is queued")
    return 0


async def reply(desk: Desk, given: argparse.Namespace) -> int:
    """Answer a question, or go on with an ended ticket."""
    ticket = await desk.reply(given.ticket, given.text)
    same = ticket.number == given.ticket
    print(f"ticket {ticket.number} " + ("goes on" if same else f"goes on with {given.ticket}"))
    return 0


async def listing(desk: Desk, given: argparse.Namespace) -> int:
    """Print the newest tickets."""
    for ticket, state in await desk.tickets(given.customer, given.limit):
        print(f"{ticket.number:5} {state:17} {ticket.customer:12} {_line(ticket.text, 60)}")
    return 0


async def show(desk: Desk, given: argparse.Namespace) -> int:
    """Print a ticket with all that was done about it."""
    ticket, state, outcome, refunds = await desk.show(given.ticket)
    print(f"ticket {ticket.number} of {ticket.customer}: {state}\n{ticket.text}")
    for event in () if outcome is None else outcome.events:
        if line := line_of(event):
            print(f"  {_line(line)}")
    for refund in refunds:
        print(f"  paid back: {words.money(refund.cents)} of order {refund.number}")
    failure = None if outcome is None else outcome.task.failure
    if failure is not None:
        print(f"{failure.code}: {failure.message}")
    elif outcome is not None and outcome.answer is not None:
        print(outcome.answer)
    return 0


async def work(desk: Desk, given: argparse.Namespace) -> int:
    """Work on tickets until a signal comes, or until there is nothing to do."""
    planner = await _planner(given.agent)
    refusals: dict[int, str] = {}

    def refused(ticket: Ticket, why: str) -> None:
        if refusals.get(ticket.number) != why:
            refusals[ticket.number] = why
            print(f"ticket {ticket.number} stays in the queue: {why}", file=sys.stderr)

    try:
        host = desk.on_duty(planner, slots=given.slots, observer=_Board())
        async with host, drain_on_signals(host) as stopping:
            print(f"on duty: {given.agent}", flush=True)
            while stopping.signal is None:
                await desk.take(host, given.slots, refused)
                if given.until_quiet and await desk.quiet():
                    return 0
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopping.drained.wait(), LOOK)
            await stopping.drained.wait()
            print("off duty; every ticket goes on at the next worker", flush=True)
            return 128 + stopping.signal
    finally:
        if (close := getattr(planner, "close", None)) is not None:
            await close()


async def approve(desk: Desk, given: argparse.Namespace) -> int:
    """Approve what a ticket asks for."""
    for what in await desk.decide(given.ticket, True, given.by, given.why):
        print(f"approved: {what}")
    return 0


async def deny(desk: Desk, given: argparse.Namespace) -> int:
    """Deny what a ticket asks for."""
    for what in await desk.decide(given.ticket, False, given.by, given.why):
        print(f"denied: {what}")
    return 0


async def withdraw(desk: Desk, given: argparse.Namespace) -> int:
    """End a ticket."""
    ended = await desk.withdraw(given.ticket)
    print(f"ticket {given.ticket} " + ("is withdrawn" if ended else "had ended already"))
    return 0 if ended else 1


async def remember(desk: Desk, given: argparse.Namespace) -> int:
    """Keep a note about a customer."""
    await desk.remember(given.customer, given.text)
    print(f"noted about {given.customer}")
    return 0


async def notes(desk: Desk, given: argparse.Namespace) -> int:
    """Print the notes about a customer."""
    for note in await desk.notes(given.customer):
        print(f"- {_line(note)}")
    return 0


async def order(desk: Desk, given: argparse.Namespace) -> int:
    """Write down an order that a customer paid."""
    customer, cents = words.customer(given.customer).name, words.cents(given.amount)
    await desk.books.order(given.number, customer, cents)
    print(f"order {given.number} of {customer}: {words.money(cents)}")
    return 0


class _Board:
    """An observer that prints what becomes of tickets."""

    def observe(self, task_id: str, event: Event) -> None:
        if event.id is not None and (line := line_of(event)):
            print(f"{task_id.replace('-', ' ')}: {_line(line)}", flush=True)


async def _planner(agent: str) -> Planner:
    """The agent on duty, by its name.

    Raises:
        BadInputError: There is no such planner.
        CannotStart: The local model cannot be loaded.
    """
    if agent == "local":
        system = "You are on duty at a help desk."
        local = LocalPlanner(max_tokens=200, system=system, examples=EXAMPLES)
        await local.open()
        return local
    module, _, name = agent.partition(":")
    try:
        made = getattr(import_module(module), name)
        planner: Any = made() if inspect.isroutine(made) or inspect.isclass(made) else made
    except Exception as error:  # The module is the caller's, and may raise anything.
        why = f"{type(error).__name__}: {error}"
        raise BadInputError(f"no agent {agent!r} ({why}); use local or MODULE:NAME") from error
    if not callable(getattr(planner, "plan", None)):
        raise BadInputError(f"{agent!r} is no agent: it has no method `plan`")
    return cast("Planner", planner)


def _line(text: str, most: int = 400) -> str:
    """One printable line."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:12]) <= 2_147_483_647:
        raise argparse.ArgumentTypeError(f"{text[:40]!a} is no number from 1 to 2,147,483,647")
    return int(text)


def _few(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:5]) <= 1_000:
        raise argparse.ArgumentTypeError(f"{text[:40]!a} is no number from 1 to 1,000")
    return int(text)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0.5 <= (seconds := float(text)) <= 3_600:
            return seconds
    raise argparse.ArgumentTypeError(f"{text[:40]!a} is no number of seconds from 0.5 to 3,600")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="helpdesk", description="Tickets of customers, worked on by a model, on Postgres."
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--database", metavar="URL", default=os.environ.get("DATABASE_URL"),
        help="the database (DATABASE_URL)",
    )  # fmt: skip
    common.add_argument("--schema", default="helpdesk", help="its schema (helpdesk)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, act: object, *words: str) -> argparse.ArgumentParser:
        said = inspect.getdoc(act) or ""
        made = commands.add_parser(name, parents=[common], help=said, description=said)
        for word in words:
            kind = _number if word in ("ticket", "number") else str
            made.add_argument(word, metavar=word.upper(), type=kind)
        made.set_defaults(act=act, lease=10.0)
        return made

    opened = command("open", open_ticket, "customer", "text")
    opened.add_argument("--steps", type=_few, default=20, help="answers of the agent at most (20)")
    command("reply", reply, "ticket", "text")
    listed = command("list", listing)
    listed.add_argument("--customer", help="only the tickets of this customer")
    listed.add_argument("--limit", type=_few, default=20, help="how many (20)")
    command("show", show, "ticket")
    worker = command("work", work)
    worker.add_argument("--agent", default="local", help="local, or a planner as MODULE:NAME")
    worker.add_argument("--slots", type=_few, default=2, help="tickets at the same time (2)")
    worker.add_argument("--lease", type=_seconds, help="seconds until others take over (10)")
    worker.add_argument("--until-quiet", action="store_true", help="end when nothing is to be done")
    for name, act in (("approve", approve), ("deny", deny)):
        decided = command(name, act, "ticket")
        decided.add_argument("--by", required=True, metavar="NAME", help="who decides")
        decided.add_argument("--why", default="", help="for the record")
    command("withdraw", withdraw, "ticket")
    command("remember", remember, "customer", "text")
    command("notes", notes, "customer")
    command("order", order, "number", "customer", "amount")
    return parser


async def _run(given: argparse.Namespace) -> int:
    if not given.database:
        raise BadInputError("no database; pass --database postgresql://… or set DATABASE_URL")
    async with Desk(given.database, given.schema, given.lease) as desk:
        return int(await given.act(desk, given))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        0 if it was done; 1 if there was nothing to do; 2 for a mistake of the caller; 3 if the
        database failed; 128 + the signal if a worker was told to stop.
    """
    given = _parser().parse_args(arguments)
    try:
        return asyncio.run(_run(given))
    except (DeskError, InvalidValue, CannotStart) as error:
        print(f"helpdesk: {error}", file=sys.stderr)
        return 2
    except (StoreError, DatabaseError, PoolTimeout) as error:
        print(f"helpdesk: the database failed: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
