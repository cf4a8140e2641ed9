"""The release check finds what must not be released; `nox -s release-check` runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .release import files, interface, projects
from .release.finding import Finding

ROOT = Path(__file__).parent.parent


def member(tmp_path: Path, **changed: Any) -> dict[Path, dict[str, Any]]:
    """A member that may be released, but for what is changed."""
    (tmp_path / "src" / "own").mkdir(parents=True)
    (tmp_path / "src" / "own" / "py.typed").touch()
    (tmp_path / "LICENSE").touch()
    (tmp_path / "README.md").write_text(changed.pop("text", "```python\nimport own\n```\n"))
    project = {
        "name": "agentic-kernel-own", "version": "1.3.0", "description": "d", "license": "MIT",
        "readme": "README.md", "license-files": ["LICENSE"], "requires-python": ">=3.11",
        "classifiers": ["c"], "dependencies": ["agentic-kernel-core>=1.3,<1.4", "msgspec"],
    }  # fmt: skip
    return {tmp_path: {**project, **changed}}


def test_a_sound_member_passes_and_a_finding_is_one_line(tmp_path: Path) -> None:
    members = member(tmp_path)
    found = [projects.version(members), projects.pins(members), projects.metadata(members)]
    found.append(projects.changelog(members, "# Changelog\n\n## 1.3.0 (2027-01-31)\n"))
    assert [each.line()[:2] for each in found] == ["ok"] * 4
    assert Finding("a", False, "b").line() == "FAILED  a: b"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"version": "1.4.0.dev0", "dependencies": []}, "version of development"),
        ({"dependencies": ["agentic-kernel-core"]}, "asks for agentic-kernel-core"),
        ({"dependencies": ["agentic-kernel-core>=1.2,<1.4"]}, "asks for agentic-kernel-core"),
        ({"dependencies": ["agentic-kernel-core>=1.3,<2"]}, "asks for agentic-kernel-core"),
        ({"optional-dependencies": {"x": ["agentic-kernel-file>=1.2"]}}, "agentic-kernel-file"),
        ({"description": ""}, "no description"),
        ({"license-files": ["COPYING"]}, "no file COPYING"),
        ({"text": "no program"}, "no example"),
        ({"text": "```\n```\n[more](docs/more.md)"}, "links to docs/more.md"),
    ],
    ids=str,
)
def test_what_may_not_be_released_is_named(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    members = member(tmp_path, **changed)
    found = [projects.version(members), projects.pins(members), projects.metadata(members)]
    bad = [each.line() for each in found if not each.good]
    assert len(bad) == 1
    assert said in bad[0]


def test_members_of_two_versions_are_no_release(tmp_path: Path) -> None:
    members = {**member(tmp_path / "a"), **member(tmp_path / "b", version="1.4.0")}
    assert "1.3.0, 1.4.0" in projects.version(members).line()


@pytest.mark.parametrize(
    "text", ["## Unreleased: 1.3.0\n", "## 1.3.0\n", "## 1.3.0rc1 (2027-01-31)\n"]
)
def test_a_version_without_a_dated_section_is_no_release(tmp_path: Path, text: str) -> None:
    assert not projects.changelog(member(tmp_path), text).good


def test_files_that_differ_or_are_missing_are_named(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, data in ((one, b"1"), (two, b"2")):
        folder.mkdir()
        (folder / "a.whl").write_bytes(data)
        (folder / "b.whl").write_bytes(b"same")
    assert files.equal("built twice", one, two, "*.whl").said == "a.whl differ"
    (two / "a.whl").unlink()
    assert files.equal("built twice", one, two, "*.whl").said == "a.whl differ"
    assert not files.equal("built twice", one, two, "*.gz").good


BEFORE = "def call(one): ...\nclass Made:\n    def verb(self): ...\nKEPT = 1\n"
AFTER = "def call(one, two): ...\nclass Made: ...\nKEPT = 1\n"


def tree(root: Path, text: str) -> Path:
    package = root / "packages" / "own" / "src" / "own"
    package.mkdir(parents=True)
    (root / "conformance" / "src").mkdir(parents=True)
    (package / "__init__.py").write_text(
        'from .things import KEPT, Made, call\n\n__all__ = ["KEPT", "Made", "call"]\n'
    )
    (package / "things.py").write_text(text + "\n")
    (package / "inside.py").write_text(f"def of_no_concern{len(text)}(): ...\n")
    return root


def test_breaks_of_exported_names_are_found_and_those_inside_are_not(tmp_path: Path) -> None:
    old, new = tree(tmp_path / "old", BEFORE), tree(tmp_path / "new", AFTER)
    assert set(interface.breaks(old, new)) == {
        "own.things.Made.verb: public object was removed",
        "own.things.call: parameter was added as required",
    }
    assert list(interface.breaks(old, old)) == []


def test_a_break_that_is_not_listed_and_a_listed_one_that_is_none_fail() -> None:
    assert interface.judged({"a"}, {"a": "do b"}).good
    assert "a is not in breaks.toml" in interface.judged({"a"}, {}).said
    assert "a is in breaks.toml and is no break" in interface.judged(set(), {"a": "do b"}).said


def test_the_listed_breaks_are_those_of_this_version() -> None:
    found = interface.interface(ROOT)
    if "fetch the history" in found.said:
        pytest.skip(f"this checkout has no history: {found.said}")
    assert found.good, found.said


def test_the_members_may_be_released_but_for_their_version() -> None:
    members = projects.projects(ROOT)
    assert [
        each.said for each in (projects.pins(members), projects.metadata(members)) if not each.good
    ] == []
