"""Registry: the capabilities that there are, found by name and by the words of a goal."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel.frozen import shown
from agentic_kernel_engine.edges import function, instance, several, text, whole
from agentic_kernel_engine.seams import compile_schema

from .errors import GuardError
from .spec import CapabilitySpec

MOST_SPECS: Final = 100_000
"""The most specs of a registry."""
MOST_WORDS: Final = 64
"""The most words of a goal that a search looks at."""
LONGEST_GOAL: Final = 10_000
"""The most characters of a goal that a search looks at."""
_WORD: Final = re.compile(r"[^\W_]+")


class UnknownCapability(GuardError):
    """The registry has no such capability."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            "guard/unknown_capability",
            f"no capability {shown(name)} is registered; add its spec to the registry",
        )


@dataclass(frozen=True, slots=True)
class Found:
    """A capability that a search found."""

    spec: CapabilitySpec
    score: float
    """The share of the goal's different words that the spec has, from 0 to 1."""


class Registry:
    """Specs by the name of their capability. It does not change.

    Each capability has a tool name: its name, with ``_`` for each character that a tool name cannot
    have, up to 64 characters.

    Args:
        specs: The specs.
        naming: Makes another tool name of a capability's name.

    Raises:
        InvalidValue: Two specs have the same name, or tool names that differ at most in case.
    """

    def __init__(
        self, specs: Iterable[CapabilitySpec] = (), naming: Callable[[str], str] | None = None
    ) -> None:
        naming = tool_name if naming is None else function(naming, "naming")
        self._tool_names: dict[str, str] = {}
        self._specs: dict[str, CapabilitySpec] = {}
        self._tools: dict[str, str] = {}
        self._fits: dict[str, Any] = {}
        taken: dict[str, str] = {}
        for spec in several(specs, "specs", "specs", MOST_SPECS):
            instance(spec, "specs", CapabilitySpec)
            if spec.name in self._specs:
                raise InvalidValue("specs", f"{spec.name} is there twice; keep one")
            tool = self._tool_names[spec.name] = text(naming(spec.name), "naming()", empty=False)
            other = taken.setdefault(tool.lower(), spec.name)
            if other != spec.name:
                raise InvalidValue(
                    "specs", f"{spec.name} and {other} have the tool name {tool}; rename one"
                )
            self._specs[spec.name] = spec
            self._tools[tool] = spec.name
        self._words: dict[str, list[int]] = {}
        self._listed = sorted(self._specs.values(), key=lambda spec: spec.name)
        for index, spec in enumerate(self._listed):
            for word in set(words(" ".join((spec.name, spec.description, *sorted(spec.tags))))):
                self._words.setdefault(word, []).append(index)

    def __len__(self) -> int:
        return len(self._specs)

    def __iter__(self) -> Any:
        return iter(self._listed)

    def spec(self, name: str) -> CapabilitySpec:
        """The spec of a capability.

        Raises:
            UnknownCapability: There is none.
        """
        spec = self._specs.get(name) if isinstance(name, str) else None
        if spec is None:
            raise UnknownCapability(name)
        return spec

    def of_tool(self, tool: str) -> CapabilitySpec:
        """The spec of the capability with a tool name.

        Raises:
            UnknownCapability: There is none.
        """
        if not isinstance(tool, str) or tool not in self._tools:
            raise UnknownCapability(tool)
        return self._specs[self._tools[tool]]

    def tool_of(self, name: str) -> str:
        """The tool name of a capability.

        Raises:
            UnknownCapability: There is none.
        """
        return self._tool_names[self.spec(name).name]

    def mismatch(self, name: str, arguments: Any) -> str | None:
        """Say what does not fit the schema of a capability's arguments; None if all does."""
        fit = self._fits.get(name) if isinstance(name, str) else None
        if fit is None:
            fit = self._fits[name] = compile_schema(self.spec(name).arguments)
        said: str | None = fit(arguments)
        return said

    def search(self, goal: str, most: int = 10) -> tuple[Found, ...]:
        """The capabilities that share words with a goal, best first.

        The score is the share of the goal's different words that stand in the name, description or
        tags. Equal scores are in the order of names. Words are compared without case; no model and
        no vectors are used.
        """
        whole(most, "most", 1)
        asked = set(words(instance(goal, "goal", str)[:LONGEST_GOAL])[:MOST_WORDS])
        counts: dict[int, int] = {}
        for word in asked:
            for index in self._words.get(word, ()):
                counts[index] = counts.get(index, 0) + 1
        best = heapq.nsmallest(most, ((-count, index) for index, count in counts.items()))
        return tuple(Found(self._listed[index], -count / len(asked)) for count, index in best)


def words(text: str) -> list[str]:
    """The words of a text, without case, each as often as it stands there."""
    return _WORD.findall(text.casefold())


def tool_name(capability: str) -> str:
    """The tool name of a capability."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", capability)[:64]
