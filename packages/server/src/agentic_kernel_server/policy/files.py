"""Files: the rules of a server, from one file or from a directory with a file for each agent.

In a directory, ``_global.yaml`` holds the rules for every agent, and ``<agent>.yaml`` those for
one. The global rules and the rules of an agent are one list, by priority. So no file can overrule
another in silence: a name or a priority that two files share is an error.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from agentic_kernel import KernelError
from agentic_kernel_guard.rules import Rule, RuleError, RuleSet, parse

GLOBAL: Final = "_global"
"""The stem of the file with the rules for every agent."""
FORMS: Final[Mapping[str, str]] = {".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}
"""The forms of rule files, by suffix."""
MAX_FILES: Final = 1_000
"""The most files of a directory."""
MAX_BYTES: Final = 1024 * 1024
"""The largest file, in bytes."""
UNKNOWN_HERE: Final = ("role", "safety", "carries", "has_read")
"""Conditions of a rule on a guarded tool that this server cannot check."""


class PolicyError(KernelError, ValueError):
    """A policy cannot be used; the message names the file, the place in it, and the problem."""

    def __init__(self, path: str | os.PathLike[str], problem: str) -> None:
        self.path = str(path)
        self.problem = problem
        super().__init__(self.path, problem)

    def __str__(self) -> str:
        return f"the policy {ascii(self.path)}: {self.problem}"


class Policies:
    """The rules for each agent.

    Args:
        everybody: The rules for every agent.
        agents: The rules of each agent that has its own, in addition.

    Raises:
        PolicyError: Two rules that hold for one agent have the same name or priority.
    """

    def __init__(
        self, everybody: tuple[Rule, ...] = (), agents: Mapping[str, tuple[Rule, ...]] | None = None
    ) -> None:
        self._everybody = RuleSet(everybody)
        self._agents = {
            agent: RuleSet(_joined(agent, everybody, own)) for agent, own in (agents or {}).items()
        }

    def of(self, agent: str) -> RuleSet:
        """The rules that hold for an agent. An empty rule set denies everything."""
        return self._agents.get(agent, self._everybody)

    def owner(self, agent: str, rule: str) -> str:
        """The agent whose own file has the rule; empty if every agent shares it."""
        shared = any(each.name == rule for each in self._everybody.rules)
        return "" if shared or agent not in self._agents else agent

    @property
    def count(self) -> int:
        """The number of rules, each counted once."""
        shared = len(self._everybody.rules)
        return shared + sum(len(each.rules) - shared for each in self._agents.values())


NO_POLICY: Final = Policies()
"""The policy of a server that was given none: every tool is denied."""


def read(path: str | os.PathLike[str]) -> Policies:
    """The policies of a file, or of a directory.

    Raises:
        PolicyError: They cannot be used.
    """
    place = Path(path)
    try:
        if stat.S_ISDIR(place.stat().st_mode):
            return _directory(place)
        return Policies(_rules(place))
    except OSError as error:
        raise PolicyError(place, f"cannot be read ({error.strerror})") from error


def _directory(place: Path) -> Policies:
    everybody: tuple[Rule, ...] = ()
    agents: dict[str, tuple[Rule, ...]] = {}
    came: dict[str, Path] = {}
    for file in _files(place):
        agent = _agent(file)
        if agent in came:
            raise PolicyError(file, f"{came[agent].name} has rules for the same agent; keep one")
        came[agent] = file
        if agent:
            agents[agent] = _rules(file)
        else:
            everybody = _rules(file)
    if not came:
        raise PolicyError(place, f"holds no rules; write {GLOBAL}.yaml, or one file for an agent")
    try:
        return Policies(everybody, agents)
    except PolicyError as wrong:
        raise PolicyError(came[wrong.path], wrong.problem) from None


def _agent(file: Path) -> str:
    """The agent that a file is for; empty for every agent. ``%2F`` in a name is a slash."""
    if file.stem == GLOBAL:
        return ""
    try:
        return unquote(file.stem, errors="strict")
    except UnicodeDecodeError:
        raise PolicyError(file, "has a name that is not UTF-8 after %; rename it") from None


def _files(place: Path) -> Iterator[Path]:
    with os.scandir(place) as entries:
        names: list[str] = []
        for entry in entries:
            # Editors and Kubernetes keep files of their own here, whose names begin with a dot.
            if not entry.name.startswith("."):
                names.append(entry.name)
            if len(names) > MAX_FILES:
                raise PolicyError(place, f"has over {MAX_FILES:,} files; join some of them")
    for name in sorted(names):
        file = place / name
        if file.suffix not in FORMS:
            raise PolicyError(file, f"is no rule file; use {', '.join(FORMS)}, or move it away")
        yield file


def _rules(file: Path) -> tuple[Rule, ...]:
    form = FORMS.get(file.suffix)
    if form is None:
        raise PolicyError(file, f"is no rule file; use {', '.join(FORMS)}")
    with file.open("rb") as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise PolicyError(file, f"has over {MAX_BYTES:,} bytes; split it into several files")
    try:
        rules = parse(data.decode(), "toml" if form == "toml" else "yaml").rules
    except UnicodeDecodeError:
        raise PolicyError(file, "is not UTF-8; save it as UTF-8") from None
    except RuleError as error:
        raise PolicyError(file, str(error)) from None
    for rule in rules:
        for word in UNKNOWN_HERE:
            if getattr(rule, word):
                raise PolicyError(
                    file,
                    f"line {rule.line}: the rule {rule.name} asks for {word}, which this server "
                    "does not know of a call; use capability, agent, principal, tenant or labels",
                )
    return rules


def _joined(agent: str, everybody: tuple[Rule, ...], own: tuple[Rule, ...]) -> list[Rule]:
    """The rules of an agent, which has no two of one name or one priority."""
    names = {rule.name for rule in everybody}
    priorities = {rule.priority: rule.name for rule in everybody}
    for rule in own:
        problem = ""
        if rule.name in names:
            problem = f"{GLOBAL} has a rule {rule.name}, too; rename one"
        elif rule.priority in priorities:
            problem = (
                f"the rule {rule.name} has the priority {rule.priority} of the rule "
                f"{priorities[rule.priority]} of {GLOBAL}; change one"
            )
        if problem:
            raise PolicyError(agent, f"line {rule.line}: {problem}")
    return [*everybody, *own]
