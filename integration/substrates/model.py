"""A model server that follows a script of the kit; it reads all that it knows from each request.

The script is the first thing that the user says. The calls in the conversation tell how far it has
come. The server keeps nothing between two requests, so a run can go on after a crash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agentic_kernel_conformance import Fail, Hear, Mark, Say, Script
from agentic_kernel_conformance.substrate_honest import from_json
from agentic_kernel_copilot.turns import GO_ON
from agentic_kernel_engine.plans.observation import INDETERMINATE, SKIPPED

from ..peers.exchange import Exchange
from ..peers.faults import Fault

TOOL: Final = "mark"
"""The tool that the model calls for each mark."""


_REMINDER: Final = re.compile(
    r"Before you were interrupted you called mark with (?P<arguments>\{.*?\})\. (?P<result>.*)"
)

_NOT_KNOWN: Final = "not known"


class Failing(Exception):
    """The work fails here."""


@dataclass(slots=True)
class Conversation:
    """What a request tells of the run."""

    script: Script = ()
    extras: list[str] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    """The tokens of the calls, in order."""
    result: str = ""
    """The text of the last call's result."""

    def heard(self, text: str) -> None:
        """Take what the user says: at first the script, then extras; neighbours are joined.

        Copilot's CLI adds the time. Its substrate tells it to go on, and reminds it of calls.
        """
        for piece in text.split("\n\n"):
            reminded = _REMINDER.fullmatch(piece)
            if reminded:
                token = json.loads(reminded["arguments"])["token"]
                if token not in self.called:  # A reminder may come again.
                    self.asked(token)
                self.result = _outcome(reminded["result"])
                if SKIPPED in self.result:
                    self.called.remove(token)
                    self.result = self.called[-1] if self.called else ""
            elif piece.startswith("<") or piece == GO_ON:
                continue
            elif self.script:
                self.extras.append(piece)
            else:
                self.script = from_json(piece)

    def asked(self, token: str) -> None:
        """Take a call of the tool."""
        self.called.append(token)


def _outcome(said: str) -> str:
    """The result of a call, or a text that calls it indeterminate, from a reminder."""
    given = said.partition("It gave: ")[2]
    return str(json.loads(given)) if given else said.replace(_NOT_KNOWN, INDETERMINATE)


def conversation(body: Mapping[str, Any]) -> Conversation:
    """Read a request of any of the wires.

    Raises:
        ValueError: The user said nothing.
    """
    found = Conversation()
    for message in _messages(body):
        kind = message.get("type", "message")
        if kind == "function_call":
            _call(found, message)
        elif kind == "function_call_output":
            found.result = _text(message["output"])
        elif message.get("role") == "user":
            _user(found, message["content"])
        elif message.get("role") == "tool":
            found.result = _text(message["content"])
        elif message.get("role") == "assistant":
            for call in message.get("tool_calls") or ():
                _call(found, call["function"])
            content = message.get("content")
            for block in content if isinstance(content, list) else ():
                if block["type"] == "tool_use":
                    _call(found, block)
    if not found.script:
        raise ValueError("the conversation has no script")
    return found


def _messages(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "contents" in body:
        yield from _google(body["contents"])
        return
    given = body.get("messages", body.get("input"))
    yield from [{"role": "user", "content": given}] if isinstance(given, str) else given or ()


def _google(contents: Any) -> Iterator[Mapping[str, Any]]:
    for content in contents:
        for part in content["parts"]:
            if call := part.get("functionCall"):
                yield {"type": "function_call", "arguments": call["args"]}
            elif result := part.get("functionResponse"):
                [output] = result["response"].values()
                yield {"type": "function_call_output", "output": output}
            elif content["role"] == "user":
                yield {"role": "user", "content": part["text"]}


def _user(found: Conversation, content: Any) -> None:
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if block["type"] == "tool_result":
            found.result = _text(block["content"])
        else:
            found.heard(block["text"])


def _call(found: Conversation, call: Mapping[str, Any]) -> None:
    arguments = call.get("arguments", call.get("input"))
    given = json.loads(arguments) if isinstance(arguments, str) else arguments
    found.asked(given["token"])


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)


def answer(found: Conversation) -> tuple[list[str], str | None]:
    """What the model says next, and the token of the mark that it asks for, if any.

    Raises:
        Failing: The script fails here, or the last mark was not made.
    """
    if found.called and found.result != found.called[-1] and INDETERMINATE not in found.result:
        raise Failing(f"the last mark was not made: {found.result}")
    at, heard = _place(found)
    said = []
    for step in found.script[at:]:
        match step:
            case Say(text):
                said.append(f"{text}\n")
            case Mark(token):
                return said, token
            case Hear() if heard < len(found.extras):
                return said, found.extras[heard]
            case Fail(code):
                raise Failing(f"the script fails with {code}")
    return [*said, "All is done."], None


def _place(found: Conversation) -> tuple[int, int]:
    """The step after the last mark that was called, and the number of extras that are heard."""
    places = {step.token: at for at, step in enumerate(found.script) if isinstance(step, Mark)}
    own = [token for token in found.called if token in places]
    return places[own[-1]] + 1 if own else 0, len(found.called) - len(own)


def _act(exchange: Exchange) -> None:
    """Answer a request as the script says, or with the vendor's error for a bad one."""
    try:
        said, token = answer(conversation(exchange.request.json))
    except Failing as failing:
        exchange.refuse(400, str(failing))
        return
    if token is None:
        exchange.answer(exchange.wire.text(exchange.model, said))
    else:
        arguments = [json.dumps({"token": token})]
        exchange.answer(exchange.wire.call(exchange.model, TOOL, arguments, said=said))


FOLLOWS: Final = Fault("the answer that the script of the kit asks for", _act)
"""For `FaultyServer`."""
