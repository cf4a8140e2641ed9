"""Targets: what a build file says, and the order in which its targets can be made."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

MOST_BYTES = 1 << 20
"""Bytes of a build file."""
_FIELDS = {"needs", "inputs", "outputs", "run"}


class BuildFileError(Exception):
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


@dataclass(frozen=True, slots=True)
class Plan:
    """The targets of a build file."""

    root: Path
    targets: Mapping[str, Target]

    def order(self, wanted: Iterable[str] = ()) -> list[Target]:
        """The wanted targets, all of them if none is named, each after the targets that it needs.

        Raises:
            BuildFileError: A wanted target is not there.
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

    def fingerprint(self, target: Target, needed: Mapping[str, str]) -> str:
        """A digest of all that the target is made of.

        It covers the recipe, the bytes of the inputs, and the digests of the needed targets.

        Raises:
            BuildFileError: A pattern of its inputs fits no file.
        """
        digest = hashlib.sha256()
        for line in (*target.run, *(needed[name] for name in target.needs)):
            digest.update(line.encode() + b"\0")
        for pattern in target.inputs:
            files = sorted(path for path in self.root.glob(pattern) if path.is_file())
            if not files:
                raise BuildFileError(
                    f"target {target.name!r}: no file fits the input {pattern!r} in {self.root}"
                )
            for path in files:
                name = path.relative_to(self.root).as_posix()
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{name}\0{content}\0".encode())
        return digest.hexdigest()

    def missing(self, target: Target) -> list[str]:
        """The outputs of the target that are not there."""
        return [name for name in target.outputs if not (self.root / name).exists()]


def read_plan(path: Path) -> Plan:
    """Read a build file: TOML, one table for each target.

    Raises:
        BuildFileError: It is not there, is no such file, or its targets need each other in a ring.
    """
    try:
        data = path.read_bytes()
        if len(data) > MOST_BYTES:
            raise BuildFileError(
                f"{path} has {len(data):,} bytes, over the limit of {MOST_BYTES:,}"
            )
        tables = tomllib.loads(data.decode())
    except OSError as error:
        raise BuildFileError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BuildFileError(f"{path} is no TOML: {error}") from error
    targets = {name: _target(name, table) for name, table in tables.items()}
    for target in targets.values():
        for need in target.needs:
            if need not in targets:
                raise BuildFileError(f"target {target.name!r} needs {need!r}, which is no target")
    try:
        TopologicalSorter({each.name: each.needs for each in targets.values()}).prepare()
    except CycleError as error:
        ring = " → ".join(error.args[1])
        raise BuildFileError(f"targets need each other in a ring: {ring}; break it") from error
    return Plan(path.resolve().parent, targets)


def _target(name: str, table: Any) -> Target:
    if not isinstance(table, dict):
        raise BuildFileError(f"{name!r} must be a table, [{name}], with a list `run`")
    if unknown := table.keys() - _FIELDS:
        raise BuildFileError(
            f"target {name!r} has {sorted(unknown)[0]!r}; use {', '.join(sorted(_FIELDS))}"
        )
    lists = {field: _texts(name, field, table.get(field, [])) for field in _FIELDS}
    if not lists["run"]:
        raise BuildFileError(f"target {name!r} has no `run`; list its commands there")
    return Target(name, **lists)


def _texts(name: str, field: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise BuildFileError(f"target {name!r}: `{field}` must be a list of texts")
    return tuple(given)
