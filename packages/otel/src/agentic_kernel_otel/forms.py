"""Forms: finds secrets by their form, in one pass over the text.

The text is cut into tokens: words, blanks, sequences of backslashes, and single other characters.
Each character is in exactly one token. The reader looks at each token once, except for a bounded
number of tokens around a name. So the work is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

REDACTED: Final = "[redacted]"
"""Replaces a secret."""

# The quantifiers are possessive, so the pattern never backtracks.
_tokens: Final = re.compile(r"[\w.-]++|\s++|\\++|.", re.DOTALL).findall
_HINTS: Final = (
    "key", "passw", "passphrase", "pwd", "secret", "token", "credential", "authorization", "cookie",
    "bearer", "basic", "://", "-----begin", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "ghp_",
    "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "akia", "asia", "aiza", "hf_",
    "eyj",
)  # fmt: skip
"""Every form of a secret contains one of these; a text without any of them stays unchanged."""

_NAMES: Final = (
    "apikey", "accesskey", "privatekey", "password", "passwd", "passphrase", "secret", "authtoken",
    "accesstoken", "refreshtoken", "sessiontoken", "bearertoken", "idtoken", "credential",
    "authorization", "cookie",
)  # fmt: skip
_WHOLE: Final = frozenset({"pwd", "token"})
_LONGEST_NAME: Final = 140
_SCHEMES: Final = frozenset({"bearer", "basic"})
_LEAST_TOKEN: Final = 6
_LEAST_JSON: Final = 9
"""The fewest characters of the first part of a JSON Web Token."""
_ENDS: Final = frozenset("\"'\\,;&}])")
_CREDENTIAL: Final = frozenset("~+/=")
"""Characters that a token after ``bearer`` may have in addition to words."""
_KEYS: Final = (
    ("sk-", 12), ("sk_", 12), ("pk-", 12), ("pk_", 12), ("rk-", 12), ("rk_", 12), ("ghp_", 16),
    ("gho_", 16), ("ghu_", 16), ("ghs_", 16), ("ghr_", 16), ("github_pat_", 16), ("glpat-", 12),
    ("xoxa-", 8), ("xoxb-", 8), ("xoxp-", 8), ("xoxo-", 8), ("xoxs-", 8), ("xoxr-", 8),
    ("AKIA", 12), ("ASIA", 12), ("AIza", 30), ("hf_", 16),
)  # fmt: skip
"""Prefixes of known keys, and the fewest characters that follow each."""


def redacted(text: str) -> str:
    """Return the text with keys, tokens and passwords redacted, found by their form or name."""
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS):
        return text
    return "".join(_Reader(_tokens(text)).read())


def is_secret_name(name: str) -> bool:
    """Return True if a value with this name is a secret."""
    return len(name) <= _LONGEST_NAME and _is_secret_name(name)


@lru_cache(maxsize=1_000)
def _is_secret_name(name: str) -> bool:
    lower = name.lower()
    squeezed = lower.replace("_", "").replace("-", "")
    if lower in _WHOLE or not any(each in squeezed for each in _NAMES):
        return lower in _WHOLE
    return all(part.isalnum() or part in "_.-" for part in lower)


_LEAST_KEY: Final = min(len(begins) + least for begins, least in _KEYS)


class _Reader:
    """Reads tokens from first to last; every method moves forward."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def read(self) -> Iterator[str]:
        tokens, size = self._tokens, len(self._tokens)
        while self._at < size:
            token = tokens[self._at]
            if token == ":" and tokens[self._at + 1 : self._at + 3] == ["/", "/"]:
                yield from self._address()
            elif token[0] == "-" and token.startswith("-----BEGIN"):
                yield self._block()
            elif token[0].isalnum() or token[0] in "_.-":
                yield from self._word(token)
            else:
                self._at += 1
                yield token

    def _peek(self, at: int) -> str:
        return self._tokens[at] if at < len(self._tokens) else ""

    def _word(self, word: str) -> Iterator[str]:
        """Read a word: a key, a name before a value, or a scheme before a token."""
        self._at += 1
        lower = word.lower()
        if lower in _SCHEMES and self._peek(self._at).isspace():
            yield from self._scheme(word)
            return
        if is_secret_name(word):
            yield from self._named(word)
        else:
            yield word if len(word) < _LEAST_KEY else _without_keys(word)

    def _scheme(self, word: str) -> Iterator[str]:
        """Read ``Bearer`` or ``Basic``, and redact the rest if it is long enough for a token."""
        at, length = self._at + 1, 0
        while (part := self._peek(at)) and (part in _CREDENTIAL or _is_word(part)):
            length += len(part)
            at += 1
        if length < _LEAST_TOKEN:
            yield word
            return
        yield f"{word} {REDACTED}"
        self._at = at

    def _named(self, name: str) -> Iterator[str]:
        """Read a secret's name, and redact its value after a colon or an equals sign."""
        at = self._at
        if self._peek(at).startswith("\\"):
            at += 1
        if self._peek(at) in ('"', "'"):
            at += 1
        if self._peek(at).isspace():
            at += 1
        if self._peek(at) not in (":", "="):
            yield name
            return
        at += 1
        if self._peek(at).isspace():
            at += 1
        first = at
        slashes = self._peek(at) if self._peek(at).startswith("\\") else ""
        quote = self._peek(at + bool(slashes))
        if quote in ('"', "'"):
            at = self._quoted(at + bool(slashes) + 1, quote, len(slashes))
        elif not slashes:
            at = self._bare(at)
        yield name
        yield from self._tokens[self._at : first]
        if at > first:
            yield REDACTED
        self._at = at

    def _quoted(self, at: int, quote: str, depth: int) -> int:
        """Return the end of a quoted value: a quote escaped no deeper than the first one."""
        slashes, tokens, size = 0, self._tokens, len(self._tokens)
        while at < size:
            token = tokens[at]
            at += 1
            if token[0] == "\\":
                slashes = len(token)
                continue
            if token == quote and (slashes <= depth if depth else slashes % 2 == 0):
                return at
            slashes = 0
        return at

    def _bare(self, at: int) -> int:
        """Return the end of a value without quotes."""
        if self._peek(at).lower() in _SCHEMES and self._peek(at + 1).isspace():
            at += 2
        while (part := self._peek(at)) and not part.isspace() and part[0] not in _ENDS:
            at += 1
        return at

    def _address(self) -> Iterator[str]:
        """Read ``://``, and redact the password of a user name and password after it."""
        yield "://"
        self._at += 3
        first = at = self._at
        colon = -1
        while (part := self._peek(at)) and not part.isspace() and part not in ("/", "@"):
            if part == ":" and colon < 0:
                colon = at
            at += 1
        if part == "@" and 0 <= colon < at - 1:
            yield from self._tokens[first : colon + 1]
            yield REDACTED
            self._at = at

    def _block(self) -> str:
        """Redact a private key in PEM form, whole or cut off; any other ``BEGIN`` stays."""
        said = self._tokens[self._at : self._at + 20]
        head = "".join(said).partition("-----")[2].partition("-----")[0]
        if not head.startswith("BEGIN ") or not head.endswith("PRIVATE KEY"):
            self._at += 1
            return said[0]
        at = self._at + 1
        while at < len(self._tokens) and not self._tokens[at].startswith("-----END"):
            at += 1
        # The rest of the last line: "-----END", " ", "PRIVATE", " ", "KEY-----".
        while at < len(self._tokens) and not self._tokens[at].endswith("KEY-----"):
            at += 1
        self._at = at + 1
        return REDACTED


def _is_word(token: str) -> bool:
    return token[0].isalnum() or token[0] in "_.-"


def _without_keys(word: str) -> str:
    """Return a word with the known keys and the JSON Web Tokens in it redacted."""
    parts = word.split(".")
    kept: list[str] = []
    at = 0
    while at < len(parts):
        part, behind = parts[at], parts[at + 1] if at + 1 < len(parts) else ""
        token = 0 if part.startswith("eyJ") else part.find("-eyJ") + 1
        begun = part.startswith("eyJ", token) and len(part) - token >= _LEAST_JSON
        if begun and len(behind) >= _LEAST_TOKEN:
            kept.append(part[:token] + REDACTED)
            at += 3
            continue
        kept.append(_without_key(part))
        at += 1
    return ".".join(kept)


def _without_key(part: str) -> str:
    if len(part) < _LEAST_KEY:
        return part
    first = len(part)
    for begins, least in _KEYS:
        at = part.find(begins, 0, first)
        while at >= 0:
            follows = len(part) - at - len(begins)
            if (at == 0 or part[at - 1] == "-") and follows >= least:
                first = at
                break
            at = part.find(begins, at + 1, first)
    return part if first == len(part) else part[:first] + REDACTED
