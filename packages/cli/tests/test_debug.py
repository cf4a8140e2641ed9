"""A bug in the user's code: one line with its place, and its traceback when asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from .terminals import Terminals

FAULTY = str(Path(__file__).with_name("faulty.py"))


@pytest.mark.slow
def test_a_bug_is_one_line_with_its_place_and_debug_shows_the_traceback(
    terminals: Terminals,
) -> None:
    failed = terminals.program(FAULTY, str(terminals.state), "it").ended(1)
    last = failed.err.splitlines()[-1]
    number = next(
        number
        for number, line in enumerate(Path(FAULTY).read_text().splitlines(), 1)
        if line.endswith("# the bug")
    )
    assert f"  at {FAULTY}:{number}" in last
    assert "Traceback" not in failed.err
    shown = terminals.call("show", "it").out
    assert f"{FAULTY}:{number}\n" in shown
    traced = terminals.program(FAULTY, str(terminals.state), "again", "--debug").ended(1)
    assert traced.err.count("Traceback") == 1
    assert "# the bug" in traced.err
    assert "\x1b" not in failed.err + traced.err + shown
    assert not any(line.startswith("ERROR") for line in traced.err.splitlines())
