"""Truncation: a long output of a tool is cut, and says so."""

from __future__ import annotations

import msgspec

from agentic_kernel import InvalidValue

from ...plans.observation import Observation
from ...tools.registry import Invocation

_encode = msgspec.json.Encoder().encode


class Truncation:
    """Cuts what tools return to so many characters, with a note of how many are missing.

    A text is cut as it is; of anything else its JSON text is, and what is left of it is a text.
    The log holds the cut output, so it is also what a replay shows.

    Raises:
        InvalidValue: The length is below one.
    """

    def __init__(self, length: int = 20_000) -> None:
        if length < 1:
            raise InvalidValue("length", f"is {length}; leave at least one character")
        self._length = length

    async def after_tool(
        self, invocation: Invocation, observation: Observation
    ) -> Observation | None:
        output = observation.output
        if output is None:
            return None
        text = output if isinstance(output, str) else _encode(output).decode()
        missing = len(text) - self._length
        if missing <= 0:
            return None
        cut = f"{text[: self._length]}\n[cut: {missing:,} of {len(text):,} characters are missing]"
        return msgspec.structs.replace(observation, output=cut)
