"""Targets: the contents of a build file, and the order in which its targets can be made."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath
from typing import Any

from .shelf import MistakeError

MOST_BYTES = 1 << 20
"""Bytes of a build file."""
LONGEST_LINE = 100_000
"""Bytes of one line of a recipe, in UTF-8; the system refuses much longer arguments."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_LISTS = ("inputs", "needs", "outputs")
_FIELDS = {*_LISTS, "run"}


class BuildFileError(MistakeError):
    """A build file that cannot be used; the message names the target and the remedy."""


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to make."""

    name: str
    run: tuple[str, ...]
    """The lines of its recipe; each is run by ``sh -e -c``."""
    needs: tuple[str, ...] = ()
    """The targets that must be made before."""
    inputs: tuple[str, ...] = ()
    """Patterns of files, in the folder of the build file."""
    outputs: tuple[str, ...] = ()
    """The files that it makes."""
    once: tuple[int, ...] = ()
    """The lines that are not run again if a crash cuts them off; the first line is 0."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The targets of a build file."""

    root: Path
    """The folder of the build file, in which the recipes run."""
    targets: Mapping[str, Target]

    def order(self, wanted: Iterable[str] = ()) -> list[Target]:
        """The wanted targets, all of them if none is named, each after the targets that it needs.

        Raises:
            BuildFileError: The build file has no such target.
        """
        todo, found = list(wanted) or list(self.targets), set[str]()
        while todo:
            name = todo.pop()
            if name not in self.targets:
                known = ", ".join(sorted(self.targets))
                raise BuildFileError(f"there is no target {name!r}; there are {known}")
            if name not in found:
                found.add(name)
                todo += self.targets[name].needs
        graph = {name: self.targets[name].needs for name in sorted(found)}
        return [self.targets[name] for name in TopologicalSorter(graph).static_order()]

    def fingerprint(self, target: Target, needed: Mapping[str, str], inputs: str) -> str:
        """A digest of all that the target is made of.

        Args:
            needed: The fingerprints of the targets that it needs.
            inputs: The digest of its inputs, from `inputs_digest`.
        """
        needs = [(name, needed[name]) for name in target.needs]
        parts = [str(self.root), target.run, target.outputs, inputs, needs]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def read_plan(path: Path) -> Plan:
    """Read a build file: TOML, one table for each target.

    Raises:
        BuildFileError: The file cannot be read, a table is wrong, or targets need each other.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise BuildFileError(f"{path} is over the limit of {MOST_BYTES:,} bytes; split it")
        tables = tomllib.loads(data.decode())
    except OSError as error:
        remedy = "write one, or name another with --file"
        raise BuildFileError(f"{path} cannot be read: {error.strerror}; {remedy}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BuildFileError(f"{path} is not TOML: {error}") from error
    targets = {name: _target(name, table) for name, table in tables.items()}
    if not targets:
        raise BuildFileError(f"{path} has no target; write a table such as [copy] with a `run`")
    for target in targets.values():
        for need in target.needs:
            if need not in targets:
                raise BuildFileError(
                    f"target {target.name!r} needs {need!r}, which is not a target of {path}"
                )
    try:
        TopologicalSorter({each.name: each.needs for each in targets.values()}).prepare()
    except CycleError as error:
        ring = " → ".join(error.args[1])
        raise BuildFileError(f"targets need each other in a ring: {ring}; break it") from error
    _refuse_unordered(targets)
    return Plan(path.resolve().parent, targets)


def _refuse_unordered(targets: Mapping[str, Target]) -> None:
    """Refuse files that two targets make, and inputs that another target makes too late."""
    makers: dict[str, str] = {}
    for target in targets.values():
        for output in target.outputs:
            other = makers.setdefault(str(PurePosixPath(output)), target.name)
            if other != target.name:
                raise BuildFileError(
                    f"targets {other!r} and {target.name!r} both make {output!r}; only one may"
                )
    for target in targets.values():
        for pattern in target.inputs:
            maker = makers.get(str(PurePosixPath(pattern)))
            if maker == target.name:
                raise BuildFileError(
                    f"target {target.name!r} has {pattern!r} as an input and as an output; "
                    "use two files"
                )
            if maker is not None and maker not in target.needs:
                raise BuildFileError(
                    f"target {target.name!r} has the input {pattern!r}, which {maker!r} makes; "
                    f"add {maker!r} to its `needs`"
                )


def _target(name: str, table: Any) -> Target:
    if not _NAME.fullmatch(name):
        raise BuildFileError(
            f"{name!r} is not a name for a target; use 1 to 64 letters, digits and . _ + - "
            "that begin with a letter or a digit"
        )
    if not isinstance(table, dict):
        raise BuildFileError(f"{name!r} must be a table, [{name}], with a list `run`")
    if unknown := table.keys() - _FIELDS:
        raise BuildFileError(
            f"target {name!r} has {sorted(unknown)[0]!r}; use {', '.join(sorted(_FIELDS))}"
        )
    lists = {field: _texts(name, field, table.get(field, [])) for field in _LISTS}
    run, once = _recipe(name, table.get("run", []))
    for number, line in enumerate(run, 1):
        if (size := len(line.encode())) > LONGEST_LINE:
            raise BuildFileError(
                f"target {name!r}: line {number} of `run` has {size:,} bytes, over the limit of "
                f"{LONGEST_LINE:,}; put it into a file"
            )
    for place in (*lists["inputs"], *lists["outputs"]):
        path = PurePosixPath(place)
        if path.is_absolute() or not path.parts or ".." in path.parts:
            raise BuildFileError(
                f"target {name!r}: {place!r} must be a path inside the folder of the build file"
            )
    return Target(name, run, **lists, once=once)


def _recipe(name: str, given: Any) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The lines of a recipe, and the places of those in a table ``{ once = "…" }``."""
    if not isinstance(given, list):
        raise BuildFileError(f"target {name!r}: `run` must be a list of commands")
    if not given:
        raise BuildFileError(f"target {name!r} has no `run`; list its commands there")
    lines, once = [], []
    for number, line in enumerate(given):
        if isinstance(line, dict) and line.keys() == {"once"}:
            once.append(number)
            line = line["once"]
        if not isinstance(line, str) or "\0" in line:
            raise BuildFileError(
                f"target {name!r}: line {number + 1} of `run` must be a text without NUL, or "
                '{ once = "text" }'
            )
        lines.append(line)
    return tuple(lines), tuple(once)


def _texts(name: str, field: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise BuildFileError(f"target {name!r}: `{field}` must be a list of texts")
    if any("\0" in each for each in given):
        raise BuildFileError(f"target {name!r}: `{field}` has a text with a NUL character")
    return tuple(dict.fromkeys(given))
