"""Messages: a conversation in the form of the Messages API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from agentic_kernel_engine.providers import GO_ON, Document, Heard, Image, Message, Result, Said

EMPTY: Final = "(nothing)"
"""Replaces a blank text, which the API refuses."""
THINKING: Final = ("thinking", "redacted_thinking")

Block = dict[str, Any]

_encode: Final = msgspec.json.Encoder(order="sorted").encode
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")


class Wire:
    """The messages of one request, with a digest of all content so far.

    The API ties a thinking block to the content before it, and newer models refuse the block after
    any other content (platform.claude.com/docs/en/build-with-claude/preserved-thinking). Between
    two steps instructions, goals, memories and tools may change, and a compaction changes the first
    messages. Then the thinking blocks that followed other content are left out.

    Args:
        head: The content before all messages: the system text and the tools.
        bound: True if thinking blocks are left out in that case. Models with a thinking budget do
            not check them, and refuse a call without its thinking.
    """

    def __init__(self, *head: Any, bound: bool = True) -> None:
        self.messages: list[Block] = []
        self._bound = bound
        self._hash = sha256(_encode(head))
        self._hashed = 0
        self._waiting = False
        self._exact = False

    def fingerprint(self) -> str:
        """Return the digest of the head and of all messages so far."""
        for message in self.messages[self._hashed :]:
            self._hash.update(_encode(message))
        self._hashed = len(self.messages)
        return self._hash.hexdigest()[:32]

    def add(self, conversation: Sequence[Message]) -> None:
        """Add messages, and each `GO_ON` that the API requires between or after them."""
        for message in conversation:
            if isinstance(message, Heard):
                self._user([_text(message.text), *map(_shown, message.shown)])
            elif isinstance(message, Said):
                self._assistant(message)
            else:
                self._user([self._result(each) for each in message])
        if self._waiting:
            self._user([_text(GO_ON)])

    def _user(self, blocks: list[Block]) -> None:
        last = self.messages[-1] if self.messages else None
        if last is not None and last["role"] == "user":
            last["content"].extend(blocks)
        else:
            self.messages.append({"role": "user", "content": blocks})
        self._waiting = False

    def _assistant(self, said: Said) -> None:
        if self._waiting:
            self._user([_text(GO_ON)])
        blocks = self._kept(said)
        self._exact = bool(blocks)
        # A turn that the server paused goes on without a user message.
        self._waiting = not blocks
        self.messages.append({"role": "assistant", "content": blocks or _made(said)})

    def _kept(self, said: Said) -> list[Block]:
        """Return the API's own form of an answer, without thinking that is no longer valid."""
        if said.items is None:
            return []
        if self._bound and said.before and said.before != self.fingerprint():
            return [each for each in said.items if each["type"] not in THINKING]
        return list(said.items)

    def _result(self, result: Result) -> Block:
        content: Any = result.text if result.text.strip() else EMPTY
        if result.images:
            content = [_text(result.text), *map(_shown, result.images)]
        id = result.id if self._exact else _id(result.id)
        block = {"type": "tool_result", "tool_use_id": id, "content": content}
        return {**block, "is_error": True} if result.failed else block


def _made(said: Said) -> list[Block]:
    blocks = [_text(said.text)] if said.text.strip() or not said.calls else []
    calls: list[Block] = [
        {"type": "tool_use", "id": _id(each.id), "name": each.name, "input": dict(each.arguments)}
        for each in said.calls
    ]
    return blocks + calls


def _text(text: str) -> Block:
    return {"type": "text", "text": text if text.strip() else EMPTY}


def _shown(shown: Image | Document) -> Block:
    source = {"type": "base64", "media_type": shown.media_type, "data": shown.data}
    if shown.url:
        source = {"type": "url", "url": shown.url}
    if isinstance(shown, Image):
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": shown.name}


def _id(id: str) -> str:
    """Return another vendor's call id in the characters that this API accepts."""
    return _FOREIGN.sub("_", id)
