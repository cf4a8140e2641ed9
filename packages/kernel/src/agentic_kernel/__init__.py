"""AgenticKernel: what an agent is, what work is, where it runs, and what every run guarantees."""

from .catalog import Agent, Capability
from .errors import (
    CannotStart,
    IllegalTransition,
    InvalidTask,
    InvalidValue,
    KernelError,
    TaskExists,
    TaskNotFound,
)
from .query import Query
from .runtime import Runtime
from .task import Failure, Task, TaskStatus
from .transitions import (
    Complete,
    Dispatch,
    Fail,
    Kill,
    Mutation,
    Pause,
    Resume,
    annotate,
    apply,
)

__all__ = [
    "Agent",
    "CannotStart",
    "Capability",
    "Complete",
    "Dispatch",
    "Fail",
    "Failure",
    "IllegalTransition",
    "InvalidTask",
    "InvalidValue",
    "KernelError",
    "Kill",
    "Mutation",
    "Pause",
    "Query",
    "Resume",
    "Runtime",
    "Task",
    "TaskExists",
    "TaskNotFound",
    "TaskStatus",
    "annotate",
    "apply",
]
