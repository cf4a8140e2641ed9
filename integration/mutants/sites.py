"""The places of a module where a fault can be planted, and the text of each fault."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_SUMS: dict[type[ast.operator], str] = {ast.Add: "-", ast.Sub: "+"}
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_BETWEEN = (ast.ExceptHandler, ast.match_case, ast.withitem, ast.keyword, ast.comprehension)
"""Nodes that are neither statement nor expression, and hold some."""
_LOGGERS = frozenset({"log", "_log", "_LOG", "logger"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: the text between two offsets of a file is replaced by another text."""

    file: str
    """The path of the file in the repository."""
    function: str
    """The qualified name of the function around it."""
    line: int
    begin: int
    end: int
    old: str
    new: str
    operator: str
    """The kind of the fault, or what a listed fault does."""

    def key(self) -> str:
        """What it is, in a text that stays the same when lines above it move."""
        return f"{self.file} {self.function}: {self.short()}"

    def short(self) -> str:
        """The change on one line."""
        if self.operator == "listed":
            return f"{_one_line(self.old)} → {_one_line(self.new)}"
        return f"{self.operator}: {_one_line(self.old)} → {_one_line(self.new)}"

    def planted(self, text: str) -> str:
        """Return the text of the file with the fault in it."""
        return text[: self.begin] + self.new + text[self.end :]


def mutants_of(file: str, text: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of the text.

    Faults are planted in functions only. Messages of errors, annotations, and calls of a logger are
    left alone: to change them changes no behaviour that a check should notice.
    """
    tree = ast.parse(text)
    starts = _line_starts(text)
    found = []
    for site in _Finder(text, starts).found(tree):
        begin, end = _span(text, starts, site.node)
        old, line = text[begin:end], site.node.lineno
        found.append(Mutant(file, site.function, line, begin, end, old, site.new, site.operator))
    unique = {(mutant.begin, mutant.end, mutant.new): mutant for mutant in found}
    return sorted(unique.values(), key=lambda mutant: (mutant.begin, mutant.end, mutant.new))


@dataclass(frozen=True, slots=True)
class _Site:
    function: str
    node: ast.expr | ast.stmt
    new: str
    operator: str


class _Finder:
    """Walks one module."""

    def __init__(self, text: str, starts: list[int]) -> None:
        self._text = text
        self._starts = starts

    def found(self, tree: ast.Module) -> Iterator[_Site]:
        """Yield each place where a fault can be planted."""
        yield from self._body(tree.body, "")

    def _body(self, body: list[ast.stmt], function: str) -> Iterator[_Site]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from self._body(node.body, f"{function}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for inner in node.body:
                    yield from self._statement(inner, f"{function}{node.name}")

    def _statement(self, node: ast.stmt, function: str) -> Iterator[_Site]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for inner in node.body:
                yield from self._statement(inner, f"{function}.{node.name}")
            return
        if isinstance(node, ast.ClassDef | ast.Import | ast.ImportFrom | ast.Assert | ast.Pass):
            return
        if isinstance(node, ast.Raise):
            yield _Site(function, node, "pass", "raise dropped")
            return
        if isinstance(node, ast.Continue):
            yield _Site(function, node, "break", "break for continue")
        elif isinstance(node, ast.Break):
            yield _Site(function, node, "continue", "continue for break")
        elif isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Constant | ast.Yield) or _is_logging(node.value):
                return
            yield _Site(function, node, "pass", "call dropped")
        elif _keeps_something(node):
            yield _Site(function, node, "pass", "assignment dropped")
        elif isinstance(node, ast.Delete):
            yield _Site(function, node, "pass", "deletion dropped")
        elif isinstance(node, ast.Return) and node.value is not None:
            yield from self._returned(node.value, function)
        elif isinstance(node, ast.If | ast.While):
            yield from self._tested(node.test, function)
        for _, value in ast.iter_fields(node):
            yield from self._parts(value, function)

    def _parts(self, value: object, function: str) -> Iterator[_Site]:
        if isinstance(value, ast.stmt):
            yield from self._statement(value, function)
        elif isinstance(value, ast.expr):
            yield from self._expression(value, function)
        elif isinstance(value, list):
            for part in value:
                yield from self._parts(part, function)
        elif isinstance(value, _BETWEEN):
            for _, inner in ast.iter_fields(value):
                yield from self._parts(inner, function)

    def _expression(self, node: ast.expr, function: str) -> Iterator[_Site]:
        if isinstance(node, ast.JoinedStr):
            return
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield self._compared(node, function)
        elif isinstance(node, ast.BoolOp):
            yield from self._joined(node, function)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield _Site(function, node, f"bool({self._source(node.operand)})", "not dropped")
        elif isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
            yield self._summed(node, function)
        elif isinstance(node, ast.IfExp):
            yield from self._tested(node.test, function)
        elif isinstance(node, ast.Constant):
            yield from self._changed(node, function)
        elif isinstance(node, ast.Call):
            name = node.func
            if isinstance(name, ast.Name) and name.id in _SWAPPED:
                yield _Site(function, name, _SWAPPED[name.id], "the other of the two")
        for _, value in ast.iter_fields(node):
            yield from self._parts(value, function)

    def _compared(self, node: ast.Compare, function: str) -> _Site:
        left, right = self._source(node.left), self._source(node.comparators[0])
        operator = _COMPARISONS[type(node.ops[0])]
        return _Site(function, node, f"({left} {operator} {right})", "comparison")

    def _joined(self, node: ast.BoolOp, function: str) -> Iterator[_Site]:
        operator = " or " if isinstance(node.op, ast.And) else " and "
        values = [f"({self._source(value)})" for value in node.values]
        yield _Site(function, node, f"({operator.join(values)})", "and, or")

    def _summed(self, node: ast.BinOp, function: str) -> _Site:
        operator = _SUMS[type(node.op)]
        new = f"({self._source(node.left)} {operator} {self._source(node.right)})"
        return _Site(function, node, new, "sum")

    def _changed(self, node: ast.Constant, function: str) -> Iterator[_Site]:
        if isinstance(node.value, bool):
            yield _Site(function, node, str(not node.value), "constant")
        elif isinstance(node.value, int):
            yield _Site(function, node, str(node.value + 1), "constant")

    def _returned(self, value: ast.expr, function: str) -> Iterator[_Site]:
        if not isinstance(value, ast.Constant):
            yield _Site(function, value, "None", "result dropped")

    def _tested(self, test: ast.expr, function: str) -> Iterator[_Site]:
        if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Await | ast.NamedExpr):
            yield _Site(function, test, f"(not ({self._source(test)}))", "condition")

    def _source(self, node: ast.expr) -> str:
        if not hasattr(node, "lineno"):
            return ast.unparse(node)
        begin, end = _span(self._text, self._starts, node)
        return self._text[begin:end]


def _keeps_something(node: ast.stmt) -> bool:
    """True if the statement changes something that outlives it, and not only a local name."""
    if isinstance(node, ast.Assign):
        return not isinstance(node.targets[0], ast.Name | ast.Tuple)
    return isinstance(node, ast.AugAssign)


def _is_logging(call: ast.expr) -> bool:
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
        return call.func.id in _LOGGERS
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    owner = call.func.value
    name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
    return name in _LOGGERS


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _span(text: str, starts: list[int], node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Where the text of a node begins and ends; `ast.get_source_segment` splits all lines anew."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return (
        _offset(text, starts, node.lineno, node.col_offset),
        _offset(text, starts, node.end_lineno, node.end_col_offset),
    )


def _offset(text: str, starts: list[int], line: int, column: int) -> int:
    """The offset of a place in the text; the parser counts columns in bytes of UTF-8."""
    begin = starts[line - 1]
    bytes_of_line = text[begin : starts[line]].encode()
    return begin + len(bytes_of_line[:column].decode())


def _one_line(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= 100 else f"{joined[:97]}..."
