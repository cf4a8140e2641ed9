"""Means: the seams of a Loop that its steps work with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..principal import Principal
from ..seams.delegation import Delegation
from ..seams.middleware import Hooks
from ..seams.policy import Policy
from ..tools.scheduler import ToolScheduler
from ..tools.threads import ToolThreads


class Means(Protocol):
    """A `Loop`, as the parts of a step see it; each attribute as there."""

    policy: Policy
    hooks: Hooks
    scheduler: ToolScheduler
    threads: ToolThreads
    delegation: Delegation
    principal: Principal
    ids: Callable[[], str]
    on_deny: str
    fits: Callable[[Any], str | None] | None
    """Says why a final answer does not fit the output schema; None for no schema."""
