"""Policy: decides whether an action is done; and the policies that come with the engine."""

from __future__ import annotations

from typing import Protocol

from ..loop.action import Action
from ..loop.context import Context
from ..loop.decision import ALLOW, Decision


class Policy(Protocol):
    """Decides; it changes nothing, and what it says holds.

    A policy may also have ``def visible(self, tool: Tool, context: Context) -> bool``: whether
    the planner sees a tool at all.
    """

    async def authorize(self, action: Action, context: Context) -> Decision:
        """Whether this action may be done now. An exception counts as a denial."""
        ...


class AllowAll:
    """Everything that the tools themselves allow."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        return ALLOW
