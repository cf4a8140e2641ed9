"""Wiring: the seams of a Loop that its steps work with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..seams.delegation import Delegation
from ..seams.middleware import Hooks
from ..seams.policy import Policy
from ..tools.scheduler import ToolScheduler
from ..tools.schema import Validator
from ..tools.threads import ToolThreads


class Wiring(Protocol):
    """The attributes of a `Loop` that the parts of a step use; see there."""

    policy: Policy | None
    hooks: Hooks
    scheduler: ToolScheduler
    single_at_once: bool
    """True if a call that is alone in its batch is made without the scheduler."""
    threads: ToolThreads
    delegation: Delegation
    validator: Validator | None
    ids: Callable[[], str]
    on_deny: str
