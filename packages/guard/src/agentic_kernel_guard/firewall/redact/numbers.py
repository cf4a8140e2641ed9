"""Numbers: cards, phone numbers and national ids among the digits of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

_DIGITS: Final = re.compile(rb"[0-9]+")
_SIGNS: Final = b" \t\n\r-./()_"
_RUN: Final = re.compile(rb"[0-9]+(?:[ \t\n\r\-./()_]{1,3}[0-9]+)*")
"""Groups of digits with at most three signs between two of them."""
LEAST: Final = 7
"""The fewest digits of a number that is looked for."""
LONGEST: Final = 19
"""The most digits of a number that is looked for."""
_DOUBLED: Final = bytes.maketrans(b"0123456789", bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)))


class Run:
    """Groups of digits that only a few signs keep apart.

    Most groups of a long run, e.g. of a table, are ruled out by their sizes and first digits alone.
    """

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self.data = data
        self.places = [match.span() for match in _DIGITS.finditer(data, start, end)]
        self.sizes = [end - start for start, end in self.places]
        self._digits = data[start:end].translate(None, _SIGNS).decode()
        self._offsets = list(accumulate(self.sizes, initial=0))

    def __len__(self) -> int:
        return len(self.places)

    def digits(self, first: int, last: int) -> str:
        """The digits of a series of groups."""
        return self._digits[self._offsets[first] : self._offsets[last + 1]]

    def begins(self, group: int) -> int:
        """The first digit of a group, as its byte."""
        return self.data[self.places[group][0]]

    def before(self, group: int) -> bytes:
        """The signs between the group before and this one."""
        if not group:
            return b""
        return self.data[self.places[group - 1][1] : self.places[group][0]]


def numbers(data: bytes) -> Iterator[tuple[int, int, str]]:
    """The place and the kind of each card, phone number and national id."""
    for match in _RUN.finditer(data):
        start, end = match.span()
        if end - start < LEAST:
            continue
        run = Run(data, start, end)
        if sum(run.sizes) >= LEAST:
            yield from _cards(run)
            yield from _phones(run)
            yield from _ids(run)


def _cards(run: Run) -> Iterator[tuple[int, int, str]]:
    sizes, count = run.sizes, len(run)
    for first in range(count):
        # A series that begins with one or two digits begins where its run does; see `_grouped`.
        if (first and sizes[first] < 3) or not 50 <= run.begins(first) <= 54:
            continue
        if sizes[first] < 3 and count > LONGEST:
            continue
        length = 0
        for last in range(first, min(count, first + LONGEST)):
            length += sizes[last]
            if length > LONGEST:
                break
            if length >= 13:
                digits = run.digits(first, last)
                if _network(digits) and luhn(digits) and _grouped(run, first, last):
                    yield run.places[first][0], run.places[last][1], "card"


def _network(digits: str) -> bool:
    return digits[0] in "3456" or "2221" <= digits[:4] <= "2720"


def _grouped(run: Run, first: int, last: int) -> bool:
    """True if the groups are those of one number, and not a line of a table."""
    if first == last:
        # The digits after a point are a fraction.
        return run.before(first) != b"."
    sizes = run.sizes[first : last + 1]
    if sizes in ([4, 6, 5], [4, 6, 4]):
        return True
    if len({*sizes[:-1]}) > 1 or sizes[-1] > sizes[0] + 3:
        return False
    same = len({run.before(group) for group in range(first + 1, last + 1)}) == 1
    if sizes[0] < 3:
        return same and (first, last) == (0, len(run) - 1)
    return same or sizes[0] == 4


def luhn(digits: str) -> bool:
    """True if the last digit is the check digit of the others (ISO/IEC 7812-1)."""
    plain = digits.encode()[::-1]
    odd = plain[::2]
    total = sum(odd) - 48 * len(odd) + sum(plain[1::2].translate(_DOUBLED))
    return total % 10 == 0 and len(set(digits)) > 1


def _phones(run: Run) -> Iterator[tuple[int, int, str]]:
    until, sizes = -1, run.sizes
    for first, (start, _) in enumerate(run.places):
        if start < until:
            continue
        # A plus sign is before the first group only. Other numbers begin with 0, or in these sizes.
        if first and not (
            (sizes[first] == 3 and sizes[first + 1 : first + 3] == [3, 4])
            or (sizes[first] == 1 and sizes[first + 1 : first + 4] == [3, 3, 4])
            or (sizes[first] >= 3 and run.begins(first) == 48)
        ):
            continue
        last = _phone(run, first)
        if last is not None:
            while start and run.data[start - 1] in b"+(":
                start -= 1
            until = run.places[last][1]
            yield start, until, "phone"


def _phone(run: Run, first: int) -> int | None:
    """The last group of the phone number that starts with a group, or None."""
    data, (start, end) = run.data, run.places[first]
    sign = data[start - 1 : start] if start else b""
    if sign == b"+" or data[max(0, start - 2) : start] == b"+(":
        return _upto(run, first, 7, 15)
    if sign.isalnum() or end - start > LONGEST:
        return None
    digits = run.digits(first, first)
    if digits.startswith("00") and digits[2:3] not in ("", "0"):
        return _upto(run, first, 10, 17)
    at = first + (digits == "1")
    if run.sizes[at : at + 3] == [3, 3, 4] and min(run.begins(at), run.begins(at + 1)) >= 50:
        return at + 2
    if digits[0] == "0" and digits[1:2] not in ("", "0"):
        if len(digits) in (11, 12) and digits[1] == "1" and digits[2] in "567":
            return first
        if 3 <= len(digits) <= 6 and first + 1 < len(run) and b"." not in run.before(first + 1):
            return _upto(run, first, 8, 13)
    return None


def _upto(run: Run, first: int, least: int, most: int) -> int | None:
    """The last group on the same line that a number of so many digits can have."""
    count, last = run.sizes[first], first
    while last + 1 < len(run) and count + run.sizes[last + 1] <= most:
        if b"\n" in run.before(last + 1):
            break
        last += 1
        count += run.sizes[last]
    return last if least <= count <= most else None


_SHAPES: Final = ((3, 2, 4), (11,), (2, 3, 3, 3))
"""The groups of digits of a national id of the US, and of a German tax id."""
_SHAPE_OF: Final = {shape[0]: shape for shape in _SHAPES}


def _ids(run: Run) -> Iterator[tuple[int, int, str]]:
    data, sizes = run.data, run.sizes
    for first, size in enumerate(sizes):
        shape = _SHAPE_OF.get(size)
        if shape is None or (len(shape) > 1 and (*sizes[first : first + len(shape)],) != shape):
            continue
        last = first + len(shape) - 1
        start, end = run.places[first][0], run.places[last][1]
        if data[max(0, start - 1) : start].isalpha() or data[end : end + 1].isalpha():
            continue
        digits = run.digits(first, last)
        between = {run.before(group) for group in range(first + 1, last + 1)}
        if shape == (3, 2, 4):
            found = _insured_in_the_us(digits, between)
        else:
            found = between <= {b" ", b"-", b"."} and tax_id(digits)
        if found:
            yield start, end, "national id"


def _insured_in_the_us(digits: str, between: set[bytes]) -> bool:
    return (
        len(between) == 1
        and between <= {b"-", b" ", b".", b"/"}
        and digits[:3] not in ("000", "666")
        and digits[3:5] != "00"
        and digits[5:] != "0000"
    )


def tax_id(digits: str) -> bool:
    """True for a German tax id: its check digit is right, and one digit repeats (ISO 7064)."""
    counts = sorted(digits[:10].count(each) for each in set(digits[:10]))
    if digits[0] == "0" or counts[-1] not in (2, 3) or sum(each > 1 for each in counts) != 1:
        return False
    product = 10
    for digit in digits[:10]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(digits[10])
