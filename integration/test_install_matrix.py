"""The install matrix names what it installs, and its page says which cells do not hold."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .install_matrix import ALONE, Matrix, page

CORE = "agentic_kernel_core-0.2.0-py3-none-any.whl"
NAMES = ("claude", "gemini", "guard", "mcp", "ollama", "openai", "otel", "postgres", "cli")


@pytest.fixture
def matrix(tmp_path: Path) -> Matrix:
    (tmp_path / CORE).touch()
    for name in (*NAMES, "file", "conformance"):
        (tmp_path / f"agentic_kernel_{name}-0.2.0-py3-none-any.whl").touch()
    return Matrix(tmp_path, [sys.executable])


def test_every_wheel_has_a_line_and_the_last_line_is_of_all(matrix: Matrix) -> None:
    alone = [row.wanted for row in matrix.rows if row.said == ALONE]
    assert ("kernel",) in alone
    assert ("file",) in alone
    assert len(matrix.rows[-1].wanted) == len(alone) == 12


def test_the_page_says_which_cells_do_not_hold(matrix: Matrix) -> None:
    (version,) = matrix.interpreters
    for row in matrix.rows:
        row.distributions, row.size, row.imported = 3, 1.26, 24.4
        row.held = {(version, "lowest-direct"): "", (version, "highest"): ""}
    matrix.rows[0].held[version, "lowest-direct"] = "No module named 'x'"
    said = page(matrix)
    assert f"| {version} oldest | {version} newest |" in said
    assert "| 3 | 1.3 | 24 | **no**: No module named 'x' | yes |" in said
    assert "every sibling" in said
