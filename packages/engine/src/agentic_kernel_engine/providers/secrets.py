"""Secrets: removes the keys of a client from everything that its server sends.

A server may quote the key that it was sent: in an answer, a model's name, arguments or an error,
and in another form than it was sent in. These forms are found: the key itself, its hexadecimal form
and its Base64 forms (both alphabets, also within a longer Base64 text). They are found in upper and
lower case, across line breaks and invisible characters, and with any character escaped as in JSON,
URLs, HTML or Python. In errors, `remnants` finds parts of a key, too.

One automaton (Aho and Corasick, 1975) reads the text once, character by character, so the work is
linear in its length. A regular expression without repetitions skips text that begins no form.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from typing import Any, Final

import msgspec

from ..plans.plan import Delta, Plan

SHORTEST: Final = 8
"""Keys with fewer characters are not searched for, because they are parts of words."""
REDACTED: Final = "[redacted]"
"""The text in place of a key."""

_SENSITIVE: Final = ("auth", "cookie", "credential", "key", "passw", "secret", "token")
"""Parts of the names of headers that hold a secret."""
_NO_SECRETS: Final = ("metadata", "prompt_cache_key", "tokenizer")
"""Fields of requests that hold no secret."""
_MOST_KNOWN: Final = 64
_DEEPEST: Final = 200
"""The most levels of a value that are searched; no store keeps as many."""
_MOST_BREAKS: Final = 2
"""Breaks in a row that do not end a form."""
_HIDDEN: Final = (
    0xAD, 0x34F, 0x61C, 0x180E, 0xFEFF,
    *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070),
)  # fmt: skip
_BREAKS: Final = "\r\n" + "".join(map(chr, _HIDDEN))
"""Line breaks, because Base64 is often broken into lines, and characters that are not seen."""
_ESCAPES: Final = "\\%&"
_NAMED: Final = {"amp": "&", "quot": '"', "apos": "'", "lt": "<", "gt": ">"}
_HEX: Final = "([0-9a-fA-F]{2})"
# Each repetition is bounded, so that one escape is found, or not, in bounded time.
_PERCENT: Final = rf"%(?:25){{0,8}}{_HEX}"
_ENTITY: Final = rf"&(?:#[xX]0{{0,6}}{_HEX};|#0{{0,6}}([0-9]{{2,3}});|(amp|quot|apos|lt|gt);)"


@cache
def _escape() -> re.Pattern[str]:
    """Pattern of one escape; compiled at first use, because that takes longer than all else."""
    return re.compile(
        rf"\\{{1,32}}(?:u00{_HEX}|u\{{0{{0,6}}{_HEX}\}}|U000000{_HEX}|x{_HEX}|{_PERCENT}|{_ENTITY}"
        rf"|([^\\]))|{_PERCENT}|{_ENTITY}",
        re.DOTALL,
    )


@cache
def _begun() -> re.Pattern[str]:
    """Pattern of an escape that may go on in the next piece."""
    return re.compile(
        r"\\{1,32}(?:u[0-9a-fA-F]{0,3}|u\{[0-9a-fA-F]{0,8}|U[0-9a-fA-F]{0,7}|x[0-9a-fA-F]?)?\Z"
        r"|\\{0,32}%(?:25){0,8}[0-9a-fA-F]?\Z"
        r"|\\{0,32}&(?:#[xX]?[0-9a-fA-F]{0,8}|[a-z]{0,4})\Z"
    )


known: Final[list[Secrets]] = []
"""The `Secrets` that this process made most recently, for its logs."""


class Secrets:
    """Removes keys from texts, streams and plans.

    Args:
        keys: The keys; those with fewer than `SHORTEST` characters are ignored.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = tuple(sorted({key for key in keys if len(key) >= SHORTEST}))
        """The keys that are searched for."""

    def clean(self, text: str) -> str:
        """The text with `REDACTED` in place of each key.

        The beginning of a key at the end of the text counts as a key if it is at least half of the
        key and has at least `SHORTEST` characters.
        """
        if not self.keys:
            return text
        if self.plain.seeds(text) is not None:
            scan = Scan(self.plain)
            text = scan.feed(text) + scan.end()
        if _escapes(text):
            scan = Scan(self.escaped)
            text = scan.feed(text) + scan.end()
        return text

    def value(self, value: Any) -> Any:
        """A JSON value without secrets, also in the keys of its objects."""
        if not self.keys:
            return value
        return self._cleaned(value, 0)

    def plan(self, plan: Plan) -> Plan:
        """A plan without keys; the same object if the plan has none."""
        if not self.keys:
            return plan
        try:
            text = msgspec.json.encode(plan).decode()
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
            return plan  # The Loop refuses it: it cannot be stored.
        # A form may go across a line break, which JSON escapes.
        unbroken = text.replace("\\n", "").replace("\\r", "")
        if all(self.clean(each) == each for each in {text, unbroken}):
            return plan
        cleaned: Plan = msgspec.convert(self.value(msgspec.to_builtins(plan)), Plan)
        return cleaned

    def _cleaned(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.clean(value)
        if depth > _DEEPEST:
            return REDACTED
        if isinstance(value, dict):
            return {
                self.clean(key) if isinstance(key, str) else key: self._cleaned(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._cleaned(item, depth + 1) for item in value]
        return value

    @cached_property
    def plain(self) -> Forms:
        """The forms without escapes."""
        return Forms(self.keys, escaped=False)

    @cached_property
    def escaped(self) -> Forms:
        """The forms with escapes in them."""
        return Forms(self.keys, escaped=True)


class Forms:
    """The forms of the keys, and the search for them.

    Forms without and with escapes are searched for one after the other, because a character that
    begins an escape may also stand before a key.

    Args:
        keys: See `Secrets`.
        escaped: True if an escape is read as the character that it stands for.
    """

    def __init__(self, keys: Iterable[str], *, escaped: bool) -> None:
        self.escapes = _ESCAPES if escaped else ""
        forms: set[str] = set()
        for key in keys:
            raw = key.encode("utf-8", "surrogatepass")
            forms.update(("".join(_plain(key)) if escaped else key.lower(), raw.hex()))
            forms.update(base64_of(raw))
        self._forms = sorted(form for form in forms if len(form) > 1)
        self.seeds = self._seeding()
        """Finds where a form may begin: an escape, or the first two characters of one."""

    def _seeding(self) -> Callable[..., re.Match[str] | None]:
        # Every alternative begins with another character, which makes this fast.
        seconds: dict[str, set[str]] = {}
        for form in self._forms:
            for first in {form[0], form[0].upper()}:
                seconds.setdefault(first, set()).update(form[1], form[1].upper())
        begun = [re.escape(escape) for escape in self.escapes]
        for first, second in sorted(seconds.items()):
            if first in self.escapes:
                continue
            follow = "".join(map(re.escape, sorted({*second, *self.escapes, *_BREAKS})))
            begun.append(rf"{re.escape(first)}(?:[{follow}]|\Z)")
        return re.compile("|".join(begun)).search

    @cached_property
    def automaton(self) -> Automaton:
        """The automaton that finds the forms."""
        return Automaton(self._forms)


class Automaton:
    """The forms as states of an automaton; 0 is the state in which none has begun.

    Attributes:
        steps: By state: the next state for each character that continues a form.
        fails: By state: the state for the next shorter beginning of a form that the text ends with.
        depths: By state: the number of characters of a form that the text ends with.
        found: By state: the length of the longest form that the text ends with; 0 for none.
        half: By state: True if at least half of a form, and `SHORTEST` characters, were read.
    """

    def __init__(self, forms: Iterable[str]) -> None:
        self.steps: list[dict[str, int]] = [{}]
        self.fails = [0]
        self.depths = [0]
        self.found = [0]
        self.half = [False]
        for form in forms:
            self._add(form)
        self._link()

    def _add(self, form: str) -> None:
        state = 0
        for depth, character in enumerate(form, 1):
            after = self.steps[state].get(character)
            if after is None:
                after = self.steps[state][character] = len(self.steps)
                self.steps.append({})
                self.fails.append(0)
                self.depths.append(depth)
                self.found.append(0)
                self.half.append(False)
            state = after
            if depth >= SHORTEST and 2 * depth >= len(form):
                self.half[state] = True
        self.found[state] = len(form)

    def _link(self) -> None:
        """Set the state that each state falls back to, states of few characters first."""
        waiting = deque(self.steps[0].values())
        while waiting:
            state = waiting.popleft()
            for character, after in self.steps[state].items():
                back = self.fails[state]
                while back and character not in self.steps[back]:
                    back = self.fails[back]
                self.fails[after] = self.steps[back].get(character, 0)
                self.found[after] = self.found[after] or self.found[self.fails[after]]
                waiting.append(after)


class Scan:
    """The search of one text that comes piece by piece.

    Text that may be the beginning of a key is held back until a later piece shows what it is. The
    result does not depend on where the text is cut into pieces.
    """

    __slots__ = ("_at", "_breaks", "_forms", "_marked", "_starts", "_state", "held")

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self.held = ""
        """The text that is held back."""
        self._at = 0
        """Index up to which the held text was read."""
        self._state = 0
        self._starts: list[int] = []
        """Index at which each of the last characters that were read begins."""
        self._breaks = 0
        self._marked = -1
        """0 if the last removed key ended where the held text begins; -1 otherwise."""

    @property
    def idle(self) -> bool:
        """True if no text is held back and no key is being read."""
        return not self._state and not self.held

    def feed(self, piece: str) -> str:
        """Read the next piece; return the text that is certain."""
        return self._read(piece, final=False)

    def end(self) -> str:
        """Return the rest of the text, after the last piece."""
        return self._read("", final=True)

    def _read(self, piece: str, *, final: bool) -> str:
        # The loop does all the work, one step for each character, so its names are local.
        machine, seeds = self._forms.automaton, self._forms.seeds
        escapes = self._forms.escapes
        steps, fails, depths, found = machine.steps, machine.fails, machine.depths, machine.found
        text = self.held + piece
        at, state, starts, marked = self._at, self._state, self._starts, self._marked
        told, size = 0, len(text)
        out: list[str] = []
        while at < size:
            if not state:
                seed = seeds(text, at)
                if seed is None:
                    at = size
                    break
                at = seed.start()
                starts.clear()
                self._breaks = 0
            begin, character = at, text[at]
            if character in escapes:
                if not final and _begun().match(text, at):
                    break
                at, character = _unescaped(text, at)
            else:
                at += 1
            if character in _BREAKS and state:
                self._breaks += 1
                if self._breaks > _MOST_BREAKS:
                    state = 0
                continue
            self._breaks = 0
            character = character.lower()
            while state and character not in steps[state]:
                state = fails[state]
            state = steps[state].get(character, 0)
            starts.append(begin)
            length = found[state]
            if length:
                begin = starts[-length]
                if not 0 <= marked >= begin:
                    out += text[told:begin], REDACTED
                told = marked = at
        depth = depths[state]
        if final and machine.half[state]:
            if not 0 <= marked >= starts[-depth]:
                out += text[told : starts[-depth]], REDACTED
            told = size
        hold = size if final else max(starts[-depth] if depth else at, told)
        out.append(text[told:hold])
        self.held = text[hold:]
        self._at, self._state = at - hold, state
        self._starts = [start - hold for start in starts[-depth:]] if depth else []
        self._marked = 0 if marked == hold else -1
        return "".join(out)


class RedactedStream:
    """The search for both kinds of forms in one text that comes piece by piece; see `Scan`."""

    __slots__ = ("_escaped", "_plain", "_secrets")

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._plain = Scan(secrets.plain)
        self._escaped: Scan | None = None

    @property
    def idle(self) -> bool:
        """True if no text is held back and no key is being read."""
        return self._plain.idle and (self._escaped is None or self._escaped.idle)

    def feed(self, piece: str) -> str:
        """Read the next piece; return the text that is certain."""
        text = self._plain.feed(piece)
        # The first scan holds the beginning of a form until the escape that continues it comes.
        if self._escaped is None and _escapes(text):
            self._escaped = Scan(self._secrets.escaped)
        return text if self._escaped is None else self._escaped.feed(text)

    def end(self) -> str:
        """Return the rest of the text, after the last piece."""
        text = self._plain.end()
        if self._escaped is None:
            return self._secrets.clean(text) if _escapes(text) else text
        return self._escaped.feed(text) + self._escaped.end()


class Redactor:
    """Removes keys from one answer that comes in pieces; each channel is a text of its own."""

    __slots__ = ("_secrets", "_seeds", "_streams")

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._seeds = secrets.plain.seeds if secrets.keys else None
        self._streams: dict[str, RedactedStream] = {}

    def take(self, piece: Delta) -> Delta | None:
        """The piece without keys; None if all of it is held back."""
        if self._seeds is None:
            return piece
        stream = self._streams.get(piece.channel)
        if stream is None or stream.idle:
            if self._seeds(piece.text) is None and not _escapes(piece.text):
                return piece
            if stream is None:
                stream = self._streams[piece.channel] = RedactedStream(self._secrets)
        text = stream.feed(piece.text)
        if text == piece.text:
            return piece
        return Delta(text, piece.channel, piece.usage) if text or piece.usage else None

    def rest(self) -> Iterator[Delta]:
        """The pieces that were held back, at the end of the answer."""
        streams, self._streams = self._streams, {}
        for channel, stream in streams.items():
            text = stream.end()
            if text:
                yield Delta(text, channel)


def _escapes(text: str) -> bool:
    return "\\" in text or "%" in text or "&" in text


def _unescaped(text: str, at: int) -> tuple[int, str]:
    """The end of the escape that begins here, and the character that it stands for."""
    found = _escape().match(text, at)
    if found is None:
        end = at + 1
        while end < len(text) and end - at < 32 and text[end] == text[at] == "\\":
            end += 1
        return end, text[at]
    kind, said = found.lastindex, found[found.lastindex or 0]
    if kind in _LITERAL:
        return found.end(), said
    if kind in _NAME:
        return found.end(), _NAMED[said]
    return found.end(), chr(int(said, 10 if kind in _DECIMAL else 16))


# By the number of the group in `_escape`; the others are hexadecimal.
_LITERAL: Final = (9,)
_DECIMAL: Final = (7, 12)
_NAME: Final = (8, 13)


def _plain(text: str) -> Iterator[str]:
    """The characters of a text as `Scan` reads them."""
    at = 0
    while at < len(text):
        if text[at] in _ESCAPES:
            at, character = _unescaped(text, at)
        else:
            at, character = at + 1, text[at]
        yield character.lower()


def base64_of(key: bytes) -> Iterator[str]:
    """The Base64 forms of a key, for every position of the key in the encoded text."""
    for before, first in ((0, 0), (1, 2), (2, 3)):
        whole = (before + len(key)) * 8 // 6
        form = b64encode(bytes(before) + key).decode()[first:whole].lower()
        yield form
        yield form.replace("+", "-").replace("/", "_")


@lru_cache(maxsize=256)
def secrets_of(*keys: str) -> Secrets:
    """The `Secrets` of these keys, made once; `logs` removes these keys from log records, too."""
    secrets = Secrets(keys)
    if secrets.keys:
        known.append(secrets)
        del known[:-_MOST_KNOWN]
    return secrets


@lru_cache(maxsize=256)
def is_secret(name: str) -> bool:
    """True if a header of this name holds a secret."""
    lower = name.lower()
    return any(part in lower for part in _SENSITIVE)


def secrets_in(given: Any) -> tuple[str, ...]:
    """The secrets in the JSON of a request, e.g. the token of a hosted MCP server.

    Metadata is the user's own, and is not searched.
    """
    found: list[str] = []
    left: list[Any] = [given]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            kept = {name: value for name, value in part.items() if name not in _NO_SECRETS}
            found += keys_in(kept)
            left += kept.values()
        elif isinstance(part, list):
            left += part
    return tuple(found)


def keys_in(headers: Mapping[str, Any]) -> Iterator[str]:
    """The secret values of headers, each without the scheme before it, e.g. ``Bearer``."""
    for name, value in headers.items():
        if isinstance(value, str) and is_secret(name):
            scheme, blank, rest = value.partition(" ")
            yield rest.strip() if blank and scheme.isalpha() else value
