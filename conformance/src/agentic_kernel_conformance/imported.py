"""The modules that a test's module imports or names, read from its source text.

An import counts in every form and in every place, also inside a function. A string such as
``"acme.runtime:make"`` counts as an import of ``acme.runtime``. No module is imported to find it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import util
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_OBJECT: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
"""``package.module:object``."""


def imports(name: str, file: Path) -> set[str]:
    """Return the dotted names that a module imports or names.

    For ``from acme import store`` they are ``acme`` and ``acme.store``, because the text alone does
    not say if ``store`` is a module.

    Args:
        name: The full name of the module.
        file: Its source file. A file that is no Python text has no imports.
    """
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    return {*_written(file, package), *_held(sys.modules.get(name))}


@cache
def _written(file: Path, package: str) -> frozenset[str]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return frozenset()
    return frozenset(found for node in ast.walk(tree) for found in _named(node, package))


def _named(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        try:
            origin = util.resolve_name("." * node.level + (node.module or ""), package)
        except ImportError:
            return
        yield origin
        yield from (f"{origin}.{alias.name}" for alias in node.names if alias.name != "*")
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from object_named(node.value)


def object_named(text: str) -> Iterator[str]:
    """Yield the module of a text ``module:object``; none for another text."""
    if _OBJECT.fullmatch(text):
        yield text.partition(":")[0]


def _held(module: ModuleType | None) -> Iterator[str]:
    """Yield the modules of the values of a loaded module."""
    for value in vars(module).values() if module is not None else ():
        if name := home(value):
            yield name


def home(value: Any) -> str:
    """Return the name of the module that defines a value, or "" if the value does not say it."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return name if isinstance(name, str) else ""


def package_of(name: str) -> str:
    """Return the package that has a module: its first part that is no namespace package.

    It is ``acme`` for ``acme.store.pages``, and ``google.genai`` for ``google.genai.types``. It is
    "" if there is no such module, or if it is a namespace.
    """
    parts = name.split(".")
    places: list[str] | None = None
    for end in range(1, len(parts) + 1):
        spec = _spec(".".join(parts[:end]), places)
        if spec is None:
            return ""
        if spec.origin is not None or not spec.submodule_search_locations:
            return ".".join(parts[:end])
        places = list(spec.submodule_search_locations)
    return ""


def _spec(name: str, places: list[str] | None) -> ModuleSpec | None:
    try:
        return util.find_spec(name) if places is None else PathFinder.find_spec(name, places)
    except (ImportError, ValueError):
        return None
