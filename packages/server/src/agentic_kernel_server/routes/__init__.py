"""The calls of the wire."""

from . import agents, executions, runners
from .operation import Operation

ROUTES: tuple[Operation, ...] = (
    *executions.OPERATIONS,
    *agents.OPERATIONS,
    *runners.OPERATIONS,
)
"""Every call, in the order of the documentation."""

__all__ = ["ROUTES", "Operation"]
