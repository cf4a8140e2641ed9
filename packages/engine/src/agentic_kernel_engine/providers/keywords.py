"""Keywords: the error for a keyword argument that a class does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable


class UnknownKeyword(TypeError):
    """A class was called with a keyword argument that it does not have.

    Args:
        called: The name of the class.
        name: The keyword.
        known: The keywords that the class has.
    """

    def __init__(self, called: str, name: str, known: Collection[str]) -> None:
        from difflib import get_close_matches  # Only an error needs it.

        near = get_close_matches(name, sorted(known), 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(f"{called}() has no keyword argument {name!r}{meant}")
        self.name = name
        self.known = frozenset(known)


def check_keywords(called: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse the first keyword that a class does not have.

    Raises:
        UnknownKeyword: There is no such keyword.
    """
    for name in given:
        if name not in known:
            raise UnknownKeyword(called, name, known)
