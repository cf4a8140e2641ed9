"""A change concerns the tests that import it, however many modules lie between."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .concerned import changed, concerned

FILES = {
    "packages/a/src/agentic_kernel_a/__init__.py": "from .one import One\nfrom .two import Two\n",
    "packages/a/src/agentic_kernel_a/one.py": "class One: ...\n",
    "packages/a/src/agentic_kernel_a/two.py": "def two():\n    from .three import Three\n",
    "packages/a/src/agentic_kernel_a/three.py": "class Three: ...\n",
    "packages/a/tests/conftest.py": "pytest_plugins = ['integration.plugin']\n",
    "packages/a/tests/test_it.py": "import subprocess\n",
    "integration/__init__.py": "",
    "integration/plugin.py": "",
    "integration/test_documentation.py": "",
    "integration/test_new.py": "",
    "integration/test_one.py": "from agentic_kernel_a import One\n",
    "integration/test_two.py": "from . import helper\n",
    "integration/helper.py": "import agentic_kernel_a.two\n",
    "docs/page.md": "A page.\n",
    "pyproject.toml": "",
    "setup_of_nothing.py": "",
}
ALL = sorted(name for name in FILES if "test_" in name)
PACKAGE = "packages/a/src/agentic_kernel_a"
OWN = "packages/a/tests/test_it.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "all"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "tests"),
    [
        (f"{PACKAGE}/one.py", ["integration/test_one.py", OWN]),
        (f"{PACKAGE}/two.py", ["integration/test_two.py", OWN]),
        (f"{PACKAGE}/three.py", ["integration/test_two.py", OWN]),
        ("integration/helper.py", ["integration/test_two.py"]),
        ("integration/plugin.py", [OWN]),
        ("packages/a/tests/conftest.py", [OWN]),
        ("integration/test_one.py", ["integration/test_one.py"]),
        ("docs/page.md", ["integration/test_documentation.py", "integration/test_new.py"]),
        ("pyproject.toml", ALL),
        ("setup_of_nothing.py", ALL),
    ],
)
def test_a_change_concerns_those_who_import_it(root: Path, name: str, tests: list[str]) -> None:
    (root / name).write_text(FILES[name] + "\n")
    found = concerned(root, changed(root, "main"))
    assert [str(path.relative_to(root)) for path in found] == tests


def test_new_files_count_and_an_unknown_base_is_refused(root: Path) -> None:
    assert concerned(root, changed(root, "main")) == []
    (root / "integration" / "test_more.py").write_text("")
    [found] = concerned(root, changed(root, "main"))
    assert found.name == "test_more.py"
    with pytest.raises(SystemExit, match="'mian' is no commit"):
        changed(root, "mian")
