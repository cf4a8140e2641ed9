"""Truncation: cuts long outputs of tools, with a note of the cut."""

from __future__ import annotations

import msgspec

from agentic_kernel import InvalidValue

from ...plans.observation import Observation
from ...tools.call import Invocation

_encode = msgspec.json.Encoder().encode


class Truncation:
    """Cuts outputs of tools to ``length`` characters, with a note of how many are missing.

    A text is cut as it is. For any other output its JSON text is cut, so the result is a text. The
    history holds the cut output, so a replay shows the same.

    Raises:
        InvalidValue: The length is below one.
    """

    def __init__(self, length: int = 20_000) -> None:
        if length < 1:
            raise InvalidValue("length", f"is {length}; use at least 1")
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
