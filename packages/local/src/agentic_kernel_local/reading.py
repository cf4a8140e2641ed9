"""Reading: turns the JSON by which the model acts into the pieces of an answer, and the answer."""

from __future__ import annotations

import json
import re
from typing import Final

import msgspec

from agentic_kernel_engine.loop import Delta
from agentic_kernel_engine.providers import Answer, Asked, Malformed

ARGUMENTS: Final = "arguments"
"""The channel of a call's JSON."""
_BEGINNING: Final = re.compile(r'\s*\{\s*"(?:(tool)"|(answer)"\s*:\s*(?:(")|[^\s"]))')
_WHOLE: Final = re.compile(
    r'(?:[^"\\]|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[0-9a-fA-F]{4}|(?!(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z)))*"
)
"""The part of a JSON string that can be decoded: without a begun escape at its end."""
_ENDING: Final = "} \t\r\n"


class _Form(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON of `prompting.answer_schema` if there are functions."""

    tool: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    answer: msgspec.Raw = msgspec.Raw()


class ActionReader:
    """The pieces of an action: a call's JSON on the channel `ARGUMENTS`, an answer as its text.

    The text of an answer that is a string has no quotes and no escapes. Any other answer is told as
    JSON. Text is held back until a later piece shows what it is.
    """

    def __init__(self) -> None:
        self._kind = ""
        """``call``, ``string`` or ``value``; empty until the beginning shows it."""
        self._held = ""

    def take(self, piece: str) -> Delta | None:
        """Read the next piece; return the piece to tell, None if all of it is held back."""
        self._held += piece
        if not self._kind:
            found = _BEGINNING.match(self._held)
            if found is None:
                return None
            tool, _, quote = found.groups()
            self._kind = "call" if tool else "string" if quote else "value"
            if not tool:
                self._held = self._held[found.end() - (not quote) :]
        if self._kind == "call":
            told, self._held = self._held, ""
            return Delta(told, ARGUMENTS)
        told = self._string() if self._kind == "string" else self._value()
        return Delta(told) if told else None

    def _string(self) -> str:
        found = _WHOLE.match(self._held)
        end = 0 if found is None else found.end()
        whole, self._held = self._held[:end], self._held[end:]
        return storable(json.loads(f'"{whole}"', strict=False))

    def _value(self) -> str:
        told = self._held.rstrip(_ENDING)
        self._held = self._held[len(told) :]
        return told

    def end(self) -> Delta | None:
        """Return the piece that was held back at the end of a whole answer."""
        rest = self._held.rstrip()[:-1].rstrip() if self._kind == "value" else ""
        return Delta(rest) if rest else None


def action_in(text: str, step: int) -> Answer:
    """Return the answer in a complete JSON text of the model.

    The arguments of a call stay text, because their JSON may have a fault that the Loop tells the
    model, e.g. one key twice in an object; and so does a final answer that is not a string.

    Raises:
        Malformed: The text is neither a call nor a final answer.
    """
    try:
        form = msgspec.json.decode(text, type=_Form)
        if form.tool:
            arguments = bytes(form.arguments).decode()
            return Answer(calls=[Asked(f"call_{step}_1", form.tool, arguments)])
        raw = bytes(form.answer).decode()
        return Answer(storable(json.loads(raw)) if raw.startswith('"') else raw)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the answer is not an action: {error}") from error


def storable(text: str) -> str:
    """Replace the characters that no store accepts: NUL, and halves of surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
