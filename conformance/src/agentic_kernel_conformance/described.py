"""The fixtures of a contract as its author needs them: name, value, feature, and text.

They come from the source of the contract's classes: an attribute ``name: Any = supplied(...)`` with
its docstring, or a fixture function with its return type and docstring.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Described:
    """One fixture that an adapter supplies."""

    name: str
    gives: str
    """The type of its value, as source text."""
    feature: str
    """The feature that needs it; empty if no feature does."""
    required: bool
    """False if the contract has a fixture of its own that is used otherwise."""
    text: str

    @property
    def needed(self) -> str:
        """``always``, ``for <feature>`` or ``optional``."""
        if not self.required:
            return "optional"
        return f"for {self.feature}" if self.feature else "always"


def described(cls: type) -> list[Described]:
    """Return the fixtures that a contract lets its adapters supply, the required ones first."""
    names: frozenset[str] = getattr(cls, "fixtures", frozenset())
    found: dict[str, Described] = {}
    for base in cls.__mro__:
        if "fixtures" in vars(base) or names & vars(base).keys():
            for each in _of(base):
                if each.name in names:
                    found.setdefault(each.name, each)
    order = {"always": 0, "optional": 1}
    return sorted(found.values(), key=lambda each: order.get(each.needed, 2))


def help_text(cls: type) -> str:
    """Return the lines about the fixtures of a contract for its docstring."""
    lines = [
        f"    {each.name} -> {each.gives} ({each.needed})\n"
        + textwrap.indent(textwrap.fill(each.text, 88), " " * 8)
        for each in described(cls)
    ]
    return "The fixtures of an adapter:\n" + "\n".join(lines)


def _of(cls: type) -> list[Described]:
    """Return the fixtures in the source of one class."""
    if cls.__module__ == "builtins":
        return []
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    aliases = _aliases(cls.__module__)
    found: list[Described] = []
    body = getattr(tree, "body", [])
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            made = _assigned(node, after, aliases)
            found += [made] if made is not None else []
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            gives = ast.unparse(node.returns) if node.returns is not None else "Any"
            text = " ".join((ast.get_docstring(node) or "").split())
            found.append(Described(node.name, gives, "", False, text))
    return found


def _assigned(
    node: ast.AnnAssign, after: ast.AST | None, aliases: dict[str, tuple[str, str]]
) -> Described | None:
    if not isinstance(node.value, ast.Call) or not isinstance(node.target, ast.Name):
        return None
    text = _text(after)
    for said in (" Supplied by the adapter.", "Supplied by the adapter. "):
        text = text.replace(said, "")
    kind, meaning = next(
        ((name, aliases[name]) for name in _quoted(text) if name in aliases), ("", ("", ""))
    )
    gives = meaning[0] or next(iter(_quoted(text)), "Any")
    if kind:
        text = f"{text} {meaning[1]}".strip()
    supplied = ast.unparse(node.value.func) == "supplied"
    features = [arg.value for arg in node.value.args[1:] if isinstance(arg, ast.Constant)]
    feature = str(features[0]) if features else ""
    return Described(node.target.id, gives, feature, supplied, text)


def _aliases(module: str) -> dict[str, tuple[str, str]]:
    """Return the named types of a module: what each stands for, and its docstring."""
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    return {
        node.targets[0].id: (ast.unparse(node.value), _text(after))
        for node, after in zip(body, [*body[1:], None], strict=True)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Subscript)
        and not node.targets[0].id.startswith("_")
    }


def _text(node: ast.AST | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split())
    return ""


def _quoted(text: str) -> list[str]:
    """Return the names in single backquotes that begin with a capital letter."""
    parts = text.replace("``", "").split("`")[1::2]
    return [part for part in parts if part[:1].isupper()]
