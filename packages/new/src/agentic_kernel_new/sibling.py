"""Sibling: the names and texts of a new package, checked before anything is written."""

from __future__ import annotations

import keyword
import re
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self, get_args

from agentic_kernel import InvalidValue
from agentic_kernel_engine import discovery

Kind = Literal["observer", "provider", "runtime", "store"]
"""The part that a package offers."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
LONGEST: Final = 30
"""The most characters of a name: the lines of the templates leave room for so many."""
WIDEST: Final = 80
"""The most columns of a summary and of an author."""

_NAME: Final = re.compile(r"[a-z](?:-?[a-z0-9])*")
_TITLE: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_OWN: Final = "agentic-kernel"
_ENTRIES: Final[Mapping[Kind, re.Pattern[str]]] = {
    "observer": re.compile(r"[a-z][a-z0-9_-]*"),
    "provider": re.compile(r"[a-z][a-z0-9_-]*"),
    "runtime": re.compile(r"[a-z][a-z0-9_-]*"),
    "store": re.compile(r"[a-z][a-z0-9+.-]+"),
}
_TAKEN: Final[Mapping[Kind, frozenset[str]]] = {
    "observer": frozenset({"otel"}),
    "store": frozenset({"file", "postgres", "postgresql"}),
    **dict.fromkeys(
        ("provider", "runtime"),
        frozenset("claude copilot gemini local local-tools ollama openai".split()),
    ),
}
"""The names of our own entries, whether they are installed or not."""
_GROUPS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "observer": (discovery.OBSERVERS,),
    "provider": (discovery.PROVIDERS, discovery.RUNTIMES),  # They share their names.
    "runtime": (discovery.PROVIDERS, discovery.RUNTIMES),
    "store": (discovery.STORES,),
}
_IMPORTED: Final = frozenset(
    "build hatchling httpx2 msgspec mypy pytest pytest_asyncio ruff tests".split()
)
"""The modules that a new package and its tools import."""
_SUMMARIES: Final[Mapping[Kind, str]] = {
    "observer": "Writes the events of AgenticKernel Tasks to a file of JSON lines.",
    "provider": "Models of a server with Chat Completions, for AgenticKernel.",
    "runtime": "Runs shell commands as AgenticKernel Tasks.",
    "store": "Keeps AgenticKernel Tasks in one SQLite file.",
}
_CONTRACTS: Final[Mapping[Kind, str]] = {
    "observer": "ObserverContract",
    "provider": "PlannerContract",
    "runtime": "SubstrateContract",
    "store": "StoreContract",
}
_ENDINGS: Final[Mapping[Kind, str]] = {
    "observer": "Observer",
    "provider": "Planner",
    "runtime": "Substrate",
    "store": "Store",
}


@dataclass(frozen=True, kw_only=True)
class Sibling:
    """The answers from which a package is made.

    Raises:
        InvalidValue: One of them does not have its form; the path is the name of the field.
    """

    kind: Kind
    name: str
    """The name of the distribution; its import name has ``_`` for ``-``."""
    entry: str
    """The name in the command, or the scheme of a store's URLs."""
    title: str
    """The beginning of the names of its classes."""
    summary: str
    """One line for people."""
    author: str = ""
    """The author's name; empty for none."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidValue("kind", f"is {_shown(self.kind)}; use {', '.join(KINDS)}")
        _check_name(self.name)
        if not _matches(_ENTRIES[self.kind], self.entry):
            form = "2 to 30 of a-z 0-9 + . -" if self.kind == "store" else "1 to 30 of a-z 0-9 _ -"
            shown = _shown(self.entry)
            raise InvalidValue("entry", f"is {shown}; use {form}, beginning with a letter")
        if not _matches(_TITLE, self.title):
            raise InvalidValue(
                "title",
                f"is {_shown(self.title)}; use 1 to 30 letters and digits, the first a capital",
            )
        _check_text("summary", self.summary)
        if not self.summary:
            raise InvalidValue("summary", "is empty; say in one line what the package does")
        _check_text("author", self.author)

    @classmethod
    def of(
        cls,
        kind: Kind,
        name: str,
        *,
        entry: str | None = None,
        summary: str | None = None,
        author: str = "",
    ) -> Self:
        """The sibling of a person, with defaults for the answers that are not given.

        Raises:
            InvalidValue: As for `Sibling`; or a name belongs to this project or to another package
                that is installed here.
        """
        if kind not in KINDS:
            raise InvalidValue("kind", f"is {_shown(kind)}; use {', '.join(KINDS)}")
        _check_name(name)
        if name.startswith(_OWN):
            raise InvalidValue(
                "name",
                f"is {name}, and names that begin with {_OWN} belong to this project; begin with "
                "a name of your own, e.g. acme-notes",
            )
        made = cls(
            kind=kind,
            name=name,
            entry=name if entry is None else entry,
            title=_title(name, _ENDINGS[kind]),
            summary=_SUMMARIES[kind] if summary is None else summary.strip(),
            author=author.strip(),
        )
        made.check_free()
        return made

    @property
    def module(self) -> str:
        """The import name."""
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """The beginning of the names of its environment variables."""
        return self.module.upper()

    @property
    def contract(self) -> str:
        """The contract that its tests take."""
        return _CONTRACTS[self.kind]

    def check_free(self) -> None:
        """Refuse an entry that another package offers.

        Raises:
            InvalidValue: It is one of ours, or an installed package offers it.
        """
        other = discovery.found(*_GROUPS[self.kind]).get(self.entry)
        if self.entry in _TAKEN[self.kind]:
            whose = "a package of this project"
        elif other is not None and other.distribution != self.name:
            whose = f"{other.distribution} {other.version}, which is installed here,"
        else:
            return
        raise InvalidValue(
            "entry", f"is {self.entry}, and {whose} offers this name; use another by --entry"
        )


def _check_name(name: object) -> None:
    if not _matches(_NAME, name):
        raise InvalidValue(
            "name",
            f"is {_shown(name)}; a package name here is 1 to {LONGEST} lower-case letters and "
            "digits, begins with a letter, and may have single dashes within, e.g. acme-notes",
        )
    module = str(name).replace("-", "_")
    if keyword.iskeyword(module):
        why = "is a keyword of Python, so no program could import it"
    elif module in sys.stdlib_module_names:
        why = "is a module of Python's standard library, which the package would hide"
    elif module in _IMPORTED:
        why = "is a module that the package or its tools import, so it would hide itself"
    else:
        return
    raise InvalidValue("name", f"{module} {why}; use another name, e.g. acme-{name}")


def _matches(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and len(text) <= LONGEST and pattern.fullmatch(text) is not None


def _title(name: str, ending: str) -> str:
    """Class names without the ending twice: ``acme-store`` becomes ``Acme``, for AcmeStore."""
    words = [part.capitalize() for part in name.split("-")]
    if len(words) > 1 and words[-1] == ending:
        words.pop()
    return "".join(words)


def _check_text(path: str, text: object) -> None:
    if not isinstance(text, str):
        raise InvalidValue(path, f"is of the type {type(text).__name__}; give a text")
    width = sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text[:1000])
    if width > WIDEST:
        raise InvalidValue(path, f"has {width} columns or more, and may have {WIDEST}; shorten it")
    bad = next((each for each in text if not each.isprintable() or each in '"\\'), None)
    if bad is not None:
        raise InvalidValue(
            path, f"has {ascii(bad)}; use one line without double quotes and backslashes"
        )


def _shown(value: object) -> str:
    return ascii(value)[:60] if isinstance(value, str) else f"of the type {type(value).__name__}"
