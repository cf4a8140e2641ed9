"""The reference: a `ScriptedPlanner` in the Loop, without any wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.loop import Context, Plan, PlannerError, Usage
from agentic_kernel_engine.providers import provider
from agentic_kernel_engine.seams import ScriptedPlanner, Streamed

from ..script import Answer, Asks, Overflows, Refuses, Says, actions
from ..setting import Setting
from ..shown import meant, pictured
from ..trace import Trace

PIECE: Final = 12
"""Characters of a piece of text."""
PACE: Final = 0.005
"""Seconds between two pieces of an answer that comes slowly."""
WORST: Final = Usage(1_000, 1_000)
"""What a call may use up at most."""
STEPS: Final = 100
"""How many steps the script is good for."""


class Runtime:
    """See `Subject`."""

    name = "reference"
    closed: Mapping[str, str] = {}
    unseen: Mapping[str, str] = {}
    otherwise: Sequence[str] = ()

    def __init__(self, kind: str = "reference") -> None:
        self.kind = kind

    def comparable(self, traced: Trace) -> Trace:
        return traced

    @asynccontextmanager
    async def runtime(self, setting: Setting) -> AsyncIterator[Host]:
        """Each request gets the next answer of the script, as from a server."""
        answers = iter(setting.script)

        def say(context: Context) -> Any:
            setting.shown.append((pictured if setting.picture else meant)(context))
            return _said(next(answers))

        loop = Loop(ScriptedPlanner(*[say] * STEPS, worst=WORST), setting.tools, **setting.options)
        async with Host(
            loop,
            setting.store,
            runtime_kinds=[self.kind],
            observer=setting.observer,
            interval=setting.interval,
        ) as host:
            yield host


def _said(answer: Answer) -> Any:
    match answer:
        case Refuses():
            return PlannerError("reference/refusal", "the model refuses")
        case Overflows():
            return PlannerError("reference/context_length", "the context is full")
        case Says():
            text = answer.text
            pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
            pause = (lambda: asyncio.sleep(PACE)) if answer.slowly else None
            return Streamed(*pieces, plan=actions(answer), pause=pause)
        case Asks():
            # A model asks by a call, which has a name.
            return Plan(actions(answer), provider=provider("reference", None, ["call"]))
    return list(actions(answer))
