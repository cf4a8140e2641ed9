"""The programs of this folder say what they do, and refuse a word that they do not know."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKERS = ("_client", "_worker")
"""The ends of the names of programs that only other programs start."""


def programs() -> Iterator[str]:
    """The modules that people run: their docstring names the line that does."""
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        _, docstring, *rest = [*path.read_text(encoding="utf-8").split('"""', 2), "", ""]
        runs = f"python -m {module.removesuffix('.__main__')}" in docstring
        if runs and '__name__ == "__main__"' in rest[0] and not module.endswith(WORKERS):
            yield module


def refuses(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fail if the program works although it is asked for help, or called with a wrong word."""
    main = importlib.import_module(module).main
    for word, code in (("--help", 0), ("--hlep", 2)):
        monkeypatch.setattr("sys.argv", [module, word])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == code, module
        out, err = capsys.readouterr()
        assert (out if code == 0 else err).startswith("usage: "), module


@pytest.mark.parametrize("module", ["integration.concerned", "integration.pages.figures"])
def test_help_and_a_wrong_word_end_a_program_before_its_work(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refuses(module, monkeypatch, capsys)


@pytest.mark.torture
def test_so_does_every_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some of them load the SDKs of all vendors."""
    found = list(programs())
    assert "integration.equivalence.counts" in found
    for module in found:
        refuses(module, monkeypatch, capsys)
