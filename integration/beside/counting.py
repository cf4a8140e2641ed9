"""Counting: how long a small program is, and how many names of a library its reader has to know."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from typing import Final

SHARED: Final = frozenset({"pydantic"})
"""What the program has whatever the library; its names are not the library's."""


@dataclass(frozen=True, slots=True)
class Count:
    """What was counted in one program."""

    lines: int
    """Neither blank nor only a comment."""
    names: frozenset[str]
    """What it imports from the library, and the attributes and keywords of the library that it
    writes."""


def count(source: str) -> Count:
    """Count the lines and the names of a program."""
    lines = (line.strip() for line in source.splitlines())
    written = [line for line in lines if line and not line.startswith("#")]
    found = _Names()
    found.visit(ast.parse(source))
    return Count(len(written), frozenset(found.names))


class _Names(ast.NodeVisitor):
    """Gathers names from what a program imports, and follows the values that it makes of them.

    The visitor goes from top to bottom, so a value is known before it is used.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._of_library: set[str] = set()

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._imported(alias.name, alias)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._imported(node.module or "", alias)

    def _imported(self, module: str, alias: ast.alias) -> None:
        root = module.partition(".")[0]
        if root not in sys.stdlib_module_names and root not in SHARED:
            self.names.add(alias.name)
            self._of_library.add(alias.asname or alias.name)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            self._bound(target, node.value)

    def visit_With(self, node: ast.With) -> None:
        self._entered(node)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> None:
        self._entered(node)

    def visit_For(self, node: ast.For) -> None:
        self._bound(node.target, node.iter)
        self.generic_visit(node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> None:
        self._bound(node.target, node.iter)
        self.generic_visit(node)

    def _entered(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._bound(item.optional_vars, item.context_expr)
        for statement in node.body:
            self.visit(statement)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self._is_of_library(node):
            self.names.add(node.attr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if self._is_of_library(node.func):
            self.names |= {keyword.arg for keyword in node.keywords if keyword.arg}
        self.generic_visit(node)

    def _bound(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name) and self._is_of_library(value):
            self._of_library.add(target.id)

    def _is_of_library(self, node: ast.expr) -> bool:
        """Whether a value comes from the library, by the name at its root."""
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Attribute | ast.Await | ast.Subscript):
                node = node.value
            elif isinstance(node, ast.Call):
                node = node.func
            else:
                return False
        return node.id in self._of_library
