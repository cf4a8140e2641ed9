"""Tools: functions that a model may call, from a function's signature to the bounded call."""

from .caller import (
    Caller,
)
from .registry import (
    Invocation,
    SideEffect,
    Tool,
    ToolContext,
    ToolError,
    ToolRegistry,
    Tools,
    Unfinished,
    perform,
    tool,
)
from .scheduler import (
    ParallelScheduler,
    SequentialScheduler,
    ToolScheduler,
)
from .schema import (
    compile_schema,
)
from .threads import (
    ToolThreads,
)

__all__ = [
    "Caller",
    "Invocation",
    "ParallelScheduler",
    "SequentialScheduler",
    "SideEffect",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolRegistry",
    "ToolScheduler",
    "ToolThreads",
    "Tools",
    "Unfinished",
    "compile_schema",
    "perform",
    "tool",
]
