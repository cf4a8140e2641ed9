"""Turns: which call of a server asks the user, where the protocol does not say so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .eliciting import Elicitation


class Turns:
    """The calls that wait for their answers: either one alone, or several without an effect.

    So a question of the server belongs to the call that is alone. If all of several calls ask, all
    their questions are dismissed, and each call is made again alone.
    """

    def __init__(self) -> None:
        self._open: set[Elicitation] = set()
        self._alone = False
        self._wanting = 0
        """The calls that wait for a turn alone; later calls let them go first."""
        self._questions = 0
        self._moved = asyncio.Condition()

    @asynccontextmanager
    async def turn(self, call: Elicitation, *, alone: bool) -> AsyncIterator[None]:
        """Wait until the call may be made; it is open inside the block."""
        call.unclear = False
        async with self._moved:
            self._wanting += alone
            try:
                await self._moved.wait_for(lambda: self._may(alone))
            finally:
                self._wanting -= alone
            self._open.add(call)
            self._alone = alone
        try:
            yield
        finally:
            self._open.discard(call)
            self._alone = False
            async with self._moved:  # Free, because the lock is never held across a wait.
                self._moved.notify_all()

    def _may(self, alone: bool) -> bool:
        if alone:
            return not self._open
        return not self._alone and not self._wanting

    async def asking(self) -> Elicitation | None:
        """The call that asks; None if several do, which are then `unclear`."""
        async with self._moved:
            self._questions += 1
            self._moved.notify_all()
            try:
                await self._moved.wait_for(lambda: self._questions >= len(self._open))
                if len(self._open) == 1:
                    return next(iter(self._open))
                for call in self._open:
                    call.unclear = True
                return None
            finally:
                self._questions -= 1
