"""Books: the desk's own tables in Postgres: the queue of tickets, the orders, and the refunds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from psycopg import AsyncConnection, sql
from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool

from agentic_kernel_engine.seams import ToolError

from .words import BadInputError, NotThereError, money

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS desk_tickets (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer text NOT NULL,
    text text NOT NULL,
    steps integer NOT NULL,
    continues integer REFERENCES desk_tickets (number),
    taken boolean NOT NULL DEFAULT false
);
CREATE INDEX IF NOT EXISTS desk_queue ON desk_tickets (number) WHERE NOT taken;
CREATE TABLE IF NOT EXISTS desk_orders (
    number bigint PRIMARY KEY,
    customer text NOT NULL,
    cents bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS desk_refunds (
    key text PRIMARY KEY,
    ticket text NOT NULL,
    number bigint NOT NULL REFERENCES desk_orders (number),
    cents bigint NOT NULL
);
"""
_LOCK: Final = 7_241_905
"""The advisory lock under which the tables are made, so that two processes do not make them."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One message of a customer that the desk has to answer."""

    number: int
    customer: str
    text: str
    steps: int
    """The most answers of the agent on duty."""
    continues: int | None
    """The ticket that this one goes on with."""
    taken: bool
    """True once its Task is stored."""

    @property
    def task_id(self) -> str:
        """The id of its Task, so that two workers cannot begin it twice."""
        return f"ticket-{self.number}"


@dataclass(frozen=True, slots=True)
class Refund:
    """One payment back to a customer."""

    number: int
    """The order."""
    cents: int


class Books:
    """The tables of one desk, in the schema in which its Tasks are kept.

    Args:
        database: A connection string.
        schema: The schema; it must be there.
    """

    def __init__(self, database: str, schema: str) -> None:
        async def prepared(connection: AsyncConnection[Any]) -> None:
            path = sql.SQL("SET search_path = {}").format(sql.Identifier(schema))
            await connection.execute(path)

        self._pool = AsyncConnectionPool(
            database, open=False, min_size=1, max_size=4, timeout=10.0, configure=prepared,
            kwargs={"autocommit": True},
        )  # fmt: skip

    async def __aenter__(self) -> Self:
        await self._pool.open(wait=True, timeout=10.0)
        async with self._pool.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            await connection.execute(_TABLES)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._pool.close()

    # Tickets

    async def queue(self, customer: str, text: str, steps: int, continues: int | None) -> Ticket:
        """Put a ticket at the end of the queue."""
        (ticket,) = await self._tickets(
            "INSERT INTO desk_tickets (customer, text, steps, continues) VALUES (%s, %s, %s, %s)"
            " RETURNING *",
            customer, text, steps, continues,
        )  # fmt: skip
        return ticket

    async def ticket(self, number: int) -> Ticket:
        """One ticket.

        Raises:
            NotThereError: There is no such ticket.
        """
        found = await self._tickets("SELECT * FROM desk_tickets WHERE number = %s", number)
        if not found:
            raise NotThereError(f"there is no ticket {number}; `list` shows the tickets")
        return found[0]

    async def newest(self, customer: str | None, limit: int) -> Sequence[Ticket]:
        """The newest tickets, of one customer or of all."""
        return await self._tickets(
            "SELECT * FROM desk_tickets WHERE %s::text IS NULL OR customer = %s"
            " ORDER BY number DESC LIMIT %s",
            customer, customer, limit,
        )  # fmt: skip

    async def queued(self, limit: int) -> Sequence[Ticket]:
        """The oldest tickets whose Tasks are not stored yet."""
        return await self._tickets(
            "SELECT * FROM desk_tickets WHERE NOT taken ORDER BY number LIMIT %s", limit
        )

    async def took(self, number: int) -> None:
        """Say that the Task of a ticket is stored; a repetition changes nothing."""
        async with self._pool.connection() as connection:
            await connection.execute(
                "UPDATE desk_tickets SET taken = true WHERE number = %s", [number]
            )

    # Orders and refunds

    async def order(self, number: int, customer: str, cents: int) -> None:
        """Write down what a customer paid; a repetition changes nothing.

        Raises:
            BadInputError: The order is known with another customer or amount.
        """
        async with self._pool.connection() as connection:
            cursor = await connection.execute(
                "INSERT INTO desk_orders VALUES (%s, %s, %s) ON CONFLICT (number) DO UPDATE"
                " SET number = excluded.number"
                " WHERE (desk_orders.customer, desk_orders.cents)"
                " = (excluded.customer, excluded.cents)",
                [number, customer, cents],
            )
        if not cursor.rowcount:
            raise BadInputError(
                f"order {number} is known with another customer or amount; use another number"
            )

    async def balance(self, number: int, customer: str) -> tuple[int, int]:
        """The cents that a customer paid for an order, and those that were paid back.

        Raises:
            ToolError: The customer has no such order.
        """
        async with self._pool.connection() as connection:
            return await self._balance(connection, number, customer)

    async def refund(self, key: str, ticket: str, customer: str, number: int, cents: int) -> None:
        """Pay back a part of an order, once for each key, and never more than was paid.

        Args:
            key: The idempotency key: a second call with it pays nothing.
            ticket: The id of the Task.

        Raises:
            ToolError: The customer has no such order, or less than that is left of it.
        """
        async with self._pool.connection() as connection, connection.transaction():
            # The lock on the order makes refunds of it wait for each other.
            await connection.execute(
                "SELECT 1 FROM desk_orders WHERE number = %s FOR UPDATE", [number]
            )
            paid, back = await self._balance(connection, number, customer)
            again = await connection.execute("SELECT 1 FROM desk_refunds WHERE key = %s", [key])
            if await again.fetchone():
                return
            if not 1 <= cents <= paid - back:
                raise ToolError(
                    f"{money(cents) if cents > 0 else cents} cannot be paid back: "
                    f"{money(paid - back)} is left of order {number}; refund at most that"
                )
            await connection.execute(
                "INSERT INTO desk_refunds VALUES (%s, %s, %s, %s)", [key, ticket, number, cents]
            )

    async def refunds(self, ticket: str) -> Sequence[Refund]:
        """The refunds that a Task has paid."""
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=class_row(Refund))
            await cursor.execute(
                "SELECT number, cents FROM desk_refunds WHERE ticket = %s ORDER BY key", [ticket]
            )
            return await cursor.fetchall()

    async def _balance(
        self, connection: AsyncConnection[Any], number: int, customer: str
    ) -> tuple[int, int]:
        cursor = await connection.execute(
            "SELECT cents, (SELECT coalesce(sum(cents), 0)::bigint FROM desk_refunds"
            " WHERE number = o.number) FROM desk_orders o WHERE number = %s AND customer = %s",
            [number, customer],
        )
        row = await cursor.fetchone()
        if row is None:
            raise ToolError(f"the customer has no order {number}; ask for the number of the order")
        return row[0], row[1]

    async def _tickets(self, statement: str, *values: Any) -> Sequence[Ticket]:
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=class_row(Ticket))
            await cursor.execute(statement, values)
            return await cursor.fetchall()
