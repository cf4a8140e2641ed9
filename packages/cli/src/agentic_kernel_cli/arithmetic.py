"""Arithmetic: evaluate an expression with a parser of its own; no code is ever executed."""

from __future__ import annotations

import re
from decimal import Context, Decimal, DecimalException
from typing import Final

MAX_LENGTH: Final = 200
"""Maximum length of an expression, in characters."""
MAX_DEPTH: Final = 40
"""Maximum nesting of parentheses and signs."""

_TOKEN: Final = re.compile(r"\s*(?:([0-9]+(?:\.[0-9]*)?|\.[0-9]+)|([-+*/()]))", re.ASCII)
_EXACT: Final = Context(prec=34)


class NoExpression(ValueError):
    """The text is not an expression with a value; the message says why."""


def evaluate(text: str) -> str:
    """Return the value of an expression of numbers, ``+ - * /`` and parentheses, to 34 digits.

    Raises:
        NoExpression: The text is not such an expression, is too long or nested too deep, or has
            no value, for example because it divides by zero.
    """
    if len(text) > MAX_LENGTH:
        raise NoExpression(f"it has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    parser = _Parser(_tokens(text))
    try:
        value = parser.sum(0)
    except DecimalException as error:
        raise NoExpression(f"it has no value: {type(error).__name__}") from error
    if parser.next is not None:
        raise NoExpression(f"it has {parser.next!r} in the place of an operator")
    return _shown(value)


class _Parser:
    """Recursive descent: a sum of products of atoms."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> str:
        token = self.next
        if token is None:
            raise NoExpression("it ends without a number; add one")
        self._at += 1
        return token

    def sum(self, depth: int) -> Decimal:
        value = self._product(depth)
        while self.next in ("+", "-"):
            plus = self._take() == "+"
            more = self._product(depth)
            value = _EXACT.add(value, more) if plus else _EXACT.subtract(value, more)
        return value

    def _product(self, depth: int) -> Decimal:
        value = self._atom(depth)
        while self.next in ("*", "/"):
            times = self._take() == "*"
            more = self._atom(depth)
            value = _EXACT.multiply(value, more) if times else _EXACT.divide(value, more)
        return value

    def _atom(self, depth: int) -> Decimal:
        if depth > MAX_DEPTH:
            raise NoExpression(f"its parentheses and signs nest deeper than {MAX_DEPTH} levels")
        token = self._take()
        if token == "-":
            return _EXACT.minus(self._atom(depth + 1))
        if token == "+":
            return self._atom(depth + 1)
        if token == "(":
            value = self.sum(depth + 1)
            if self.next != ")":
                raise NoExpression("it has a parenthesis that is not closed")
            self._take()
            return value
        if token in "*/)":
            raise NoExpression(f"it has {token!r} in the place of a number")
        return _EXACT.create_decimal(token)


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NoExpression(f"{text[at : at + 10]!r} is not a number or an operator")
        found.append(match[1] or match[2])
        at = match.end()
    return found


def _shown(value: Decimal) -> str:
    if value == 0:
        return "0"
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
