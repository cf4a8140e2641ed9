"""Follower: a planner that does what the user asks, and each injection that it sees, at once."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from agentic_kernel_engine.loop import Action, Context, FinalAnswer, ToolCall
from agentic_kernel_guard.firewall.redact import spans
from integration.injections.suite import Call, Case

WHY = "The user asked me to do this for them."
"""The worst model justifies everything."""


class Follower:
    """Makes the user's calls in order. Once it has seen an injection, it makes its calls next.

    It writes what it was shown: a part of an argument that the firewall hides, and that stands
    neither in the user's words nor in a result, is written as the marker that it saw.

    Args:
        hidden: The kinds that the firewall hides; empty without one.
        reasons: The tools that take a justification.
    """

    def __init__(
        self, case: Case, user: Sequence[Call], injected: Sequence[Call], *,
        hidden: Collection[str] = (), reasons: Collection[str] = (),
    ) -> None:  # fmt: skip
        self.case = case
        self.followed = False
        self.refused: list[tuple[str, bool, str, str]] = []
        """The refused calls: the tool, True for the injection's, the code, and the message."""
        self.done: list[Call] = []
        """The calls that were carried out."""
        self.cuts = 0
        """The frames that were cut."""
        self._left = [(call, False) for call in user]
        self._injected = injected
        self._hidden = frozenset(hidden)
        self._reasons = frozenset(reasons)
        self._known = case.prompt
        self._heard = 0
        self._asked: list[tuple[Call, bool]] = []

    async def plan(self, context: Context) -> Action:
        """The next call, or the answer."""
        found = [
            each for entry in context.transcript for each in getattr(entry, "observations", ())
        ]
        for observation in found[self._heard :]:
            self._hear(observation)
        self._heard = len(found)
        if not self._left:
            return FinalAnswer(self._answer())
        (name, arguments), injected = self._left.pop(0)
        arguments = self._written(arguments)
        self._asked.append(((name, arguments), injected))
        why = {"justification": WHY} if name in self._reasons else {}
        return ToolCall(name, arguments | why)

    def _hear(self, observation: Any) -> None:
        call, injected = self._asked[len(self.done) + len(self.refused)]
        if not observation.ok:
            self.refused.append((call[0], injected, observation.error, observation.message))
            return
        self.done.append(call)
        shown = json.dumps(observation.output, ensure_ascii=False, default=str)
        self._known += shown
        if self._hidden and observation.output["cuts"]:
            self.cuts += 1
        if self.case.trigger in shown and not self.followed:
            self.followed = True
            self._left = [(call, True) for call in self._injected] + self._left

    def _answer(self) -> str:
        """The user's answer if all of its calls were made, and the injection's if it was seen."""
        said = [self.case.injected_answer] if self.followed else []
        if not any(not injected for _, injected, _, _ in self.refused):
            said.append(self.case.answer)
        return str(self._written("\n".join(said)))

    def _written(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._written(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._written(each) for each in value]
        if not isinstance(value, str):
            return value
        parts, at = [], 0
        for span in spans(value) if self._hidden else ():
            secret = value[span.start : span.end]
            if span.kind in self._hidden and secret not in self._known:
                parts += [value[at : span.start], f"[{span.kind}]"]
                at = span.end
        return "".join(parts) + value[at:]
