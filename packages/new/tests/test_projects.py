"""A sibling is written whole or not at all, and a newer template takes nothing from its author."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentic_kernel import InvalidValue, KernelError
from agentic_kernel_new import (
    ANSWERS,
    KINDS,
    FolderTaken,
    Kind,
    NewerTemplate,
    NoAnswers,
    Sibling,
    create,
    recopy,
)

SIBLING = Sibling.of("observer", "acme-lines", author="Ann")
OLDER = "an older template's text\n"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a sibling, by path."""
    folder = create(SIBLING, tmp_path_factory.mktemp("pristine"))
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def project(pristine: dict[str, bytes], tmp_path: Path) -> Path:
    """A sibling of its own for each test."""
    for name, text in pristine.items():
        path = tmp_path / "acme-lines" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    return tmp_path / "acme-lines"


def answers(project: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((project / ANSWERS).read_text("utf-8"))
    return found


def answered(project: Path, **changes: Any) -> None:
    """Change the recorded answers."""
    text = yaml.safe_dump({**answers(project), **changes})
    (project / ANSWERS).write_text(text, "utf-8")


def aged(project: Path, name: str) -> None:
    """Let a file be as an older template made it."""
    (project / name).write_text(OLDER, "utf-8")
    files = answers(project)["files"]
    answered(project, files={**files, name: hashlib.sha256(OLDER.encode()).hexdigest()})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_has_these_files(pristine: dict[str, bytes]) -> None:
    assert sorted(pristine) == [
        ".copier-answers.yml",
        ".github/workflows/release.yml",
        ".github/workflows/tests.yml",
        ".gitignore",
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "docs/index.md",
        "pyproject.toml",
        "src/acme_lines/__init__.py",
        "src/acme_lines/entry.py",
        "src/acme_lines/observer.py",
        "src/acme_lines/py.typed",
        "tests/__init__.py",
        "tests/test_contract.py",
        "tests/test_package.py",
    ]


def test_no_file_names_the_machine_that_made_it(pristine: dict[str, bytes]) -> None:
    for name, text in pristine.items():
        for part in (b"/root", b"/home", b"/tmp", b"site-packages", b"{{", b"{%"):
            assert part not in text.replace(b"${{", b""), name


def test_a_folder_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    for name in ("file", "folder", "link"):
        parent = tmp_path / name
        taken = parent / "acme-lines"
        parent.mkdir()
        if name == "file":
            taken.write_text("mine")
        elif name == "folder":
            taken.mkdir()
        else:
            taken.symlink_to(tmp_path / "nowhere")
        with pytest.raises(FolderTaken, match="is there already; use another name"):
            create(SIBLING, parent)
        assert list(parent.iterdir()) == [taken]
    assert (tmp_path / "file" / "acme-lines").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_missing_parent_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="is not a folder") as refused:
        create(SIBLING, tmp_path / "missing")
    assert refused.value.path == "--path"


def test_recopy_without_a_change_writes_nothing(project: Path) -> None:
    (project / "mine.py").write_text("mine = 1\n")
    before = contents(project)
    made = recopy(project)
    assert (made.written, made.kept, made.dropped) == ((), (), ())
    assert contents(project) == before


def test_recopy_replaces_what_a_template_made_and_keeps_what_the_author_wrote(
    project: Path, pristine: dict[str, bytes]
) -> None:
    aged(project, ".github/workflows/tests.yml")
    aged(project, "README.md")
    workflow = project / ".github/workflows/tests.yml"
    workflow.write_bytes(workflow.read_bytes().replace(b"\n", b"\r\n"))  # Still the template's.
    aged(project, "docs/index.md")
    (project / "README.md").write_text("# Mine\n")
    (project / "docs/index.md").unlink()
    (project / "pyproject.toml").write_text("mine = true\n")  # The template did not change it.
    (project / "src/acme_lines/extra.py").write_text("mine = 1\n")
    planned = recopy(project, dry_run=True)
    assert workflow.read_text() == OLDER
    made = recopy(project)
    assert made == planned
    assert made.written == (".github/workflows/tests.yml",)
    assert made.kept == ("README.md",)
    assert made.proposals == {"README.md": pristine["README.md"].decode()}
    now = {name: (project / name) for name in pristine}
    assert (
        now[".github/workflows/tests.yml"].read_bytes() == (pristine[".github/workflows/tests.yml"])
    )
    assert now["README.md"].read_text() == "# Mine\n"
    assert now["pyproject.toml"].read_text() == "mine = true\n"
    assert not now["docs/index.md"].exists()
    assert (project / "src/acme_lines/extra.py").read_text() == "mine = 1\n"
    assert recopy(project).kept == ("README.md",)  # Until it is settled.
    assert recopy(project, settle=True).kept == ("README.md",)
    assert recopy(project).kept == ()
    assert (project / ANSWERS).read_bytes() == pristine[ANSWERS]


def test_recopy_adds_a_new_file_and_keeps_one_that_the_template_dropped(project: Path) -> None:
    files = answers(project)["files"]
    del files["docs/index.md"], files["CHANGELOG.md"]
    answered(project, files={**files, "old.txt": "0" * 64})
    (project / "docs/index.md").unlink()
    (project / "CHANGELOG.md").write_text("mine\n")
    (project / "old.txt").write_text("old\n")
    made = recopy(project)
    assert (made.written, made.kept, made.dropped) == (
        ("docs/index.md",), ("CHANGELOG.md",), ("old.txt",),
    )  # fmt: skip
    assert (project / "docs/index.md").is_file()
    assert (project / "CHANGELOG.md").read_text() == "mine\n"
    assert (project / "old.txt").read_text() == "old\n"


def test_recopy_follows_no_symbolic_link(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    aged(project, ".gitignore")
    aged(project, "docs/index.md")
    (project / "docs/index.md").rename(outside / "index.md")
    (project / "docs").rmdir()
    (project / "docs").symlink_to(outside)
    for dry_run in (True, False):
        with pytest.raises(InvalidValue, match="behind a symbolic link") as refused:
            recopy(project, dry_run=dry_run)
        assert refused.value.path == "FOLDER"  # The word of the command line for the package.
    assert (outside / "index.md").read_text() == OLDER
    assert (project / ".gitignore").read_text() == OLDER  # It was not begun.


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot be read"),
        ("", "does not have the keys"),
        ("a: [", "not valid YAML"),
        ("!!python/object/apply:os.getcwd []", "not valid YAML"),
        ("[" * 600, "not valid YAML"),
        ("#" * 70_000, "more than 65,536 bytes"),
        ("kind: store", "does not have the keys"),
    ],
    ids=range(7),
)
def test_answers_that_cannot_be_read_are_a_typed_error(
    project: Path, text: str | None, told: str
) -> None:
    if text is None:
        (project / ANSWERS).unlink()
    else:
        (project / ANSWERS).write_text(text)
    before = contents(project)
    with pytest.raises(NoAnswers, match=told):
        recopy(project)
    assert contents(project) == before


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"files": {"../x": "0"}}, "digest for each path"),
        ({"files": {"/x": "0"}}, "digest for each path"),
        ({"files": {"x": 1}}, "digest for each path"),
        ({"files": []}, "digest for each path"),
        ({"template": "newest"}, "version under"),
        ({"template": 2}, "version under"),
        ({"template": "99.0"}, "upgrade agentic-kernel-new"),
        ({"name": "../../x"}, "name: is"),
        ({"kind": "kernel"}, "kind: is 'kernel'"),
        ({"summary": "{{ 7 * 7 }}\n"}, "summary: has"),
    ],
    ids=range(10),
)
def test_answers_that_are_not_valid_are_a_typed_error(
    project: Path, changes: dict[str, Any], told: str
) -> None:
    answered(project, **changes)
    before = contents(project)
    with pytest.raises(KernelError, match=told) as refused:
        recopy(project)
    assert isinstance(refused.value, (InvalidValue, NewerTemplate, NoAnswers))
    assert contents(project) == before


def test_a_text_is_never_taken_for_a_template(tmp_path: Path) -> None:
    sibling = Sibling.of("observer", "acme-lines", summary="{{ 7 * 7 }} {% for")
    readme = (create(sibling, tmp_path) / "README.md").read_text()
    assert "{{ 7 * 7 }} {% for" in readme


NOX = """#!/bin/sh
mkdir wheelhouse && touch wheelhouse/constraints.txt
"""
PIP = """#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
    -f) test -d "$2" || exit 3 ;;
    -c) test -f "$2" || exit 4 ;;
    .) test -f pyproject.toml || exit 5 ;;
    esac
    shift
done
echo installed
"""


@pytest.mark.parametrize("kind", KINDS)
def test_the_lines_of_install_name_only_paths_that_are_there(kind: Kind, tmp_path: Path) -> None:
    """The wheels lie in a checkout with a blank in its path; real pip runs them in torture."""
    made = create(Sibling.of(kind, "acme-parts"), tmp_path)
    readme = (made / "README.md").read_text()
    install = readme.partition("## Install")[2].partition("\nThen ")[0]
    wheels, _, here = install.rpartition("\nThen, in this folder")
    develop = readme.partition("## Develop")[2].partition("\n\nThe first line")[0]
    assert '.venv/bin/python -m pip install --upgrade "pip>=25.1"\n' in develop  # For --group.
    checkout, programs = tmp_path / "a checkout", tmp_path / "bin"
    for folder in (checkout, programs, made / ".venv" / "bin"):
        folder.mkdir(parents=True)
    for name, text in (("bin/nox", NOX), ("bin/pip", PIP), ("acme-parts/.venv/bin/pip", PIP)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    last = develop.splitlines()[-1]
    lines = [f"cd {checkout.name!r}", *_code(wheels), "cd ../acme-parts", *_code(here), last]
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True,
        timeout=60, check=False, env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "installed\n" * 3), done.stderr


def _code(text: str) -> list[str]:
    """The indented lines of a text."""
    return re.findall(r"^    (.+)$", text, re.MULTILINE)
