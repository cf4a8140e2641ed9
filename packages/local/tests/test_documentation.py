"""The code of the README and of the page is run as it stands, on the real model."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "packages" / "local" / "README.md", ROOT / "docs" / "local.md")
BLOCK = re.compile(
    r"^```python[^\n]*\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)
BLOCKS = [
    pytest.param(code, printed, id=f"{page.parent.name}-{number}")
    for page in PAGES
    for number, (code, printed) in enumerate(BLOCK.findall(page.read_text()))
]
"""Each program, and the text that the page says it prints; empty if it says none."""


def test_there_is_code_to_run() -> None:
    assert len(BLOCKS) == 5


@pytest.mark.parametrize(("code", "printed"), BLOCKS)
def test_the_code_runs(code: str, printed: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    if printed:
        assert done.stdout == printed
        return
    last = done.stdout.splitlines()[-1]
    wanted = "42" if "6 * 7" in code else "Colour(" if "Colour" in code else "sky"
    assert wanted in last.lower() or wanted in last
