"""New packages are as clean as our own, before a line is changed."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

import agentic_kernel_conformance
import agentic_kernel_new
from agentic_kernel_engine import StoreError
from agentic_kernel_new import KINDS, Sibling, create, recopy

LONGEST = "acme-of-the-longest-of-allname"
"""As long as a name may be: the lines of the templates must have room for it."""


@pytest.fixture(scope="module")
def siblings(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A sibling of each kind, with long names and a wide summary."""
    made: dict[str, Path] = {}
    for kind in KINDS:
        summary = f"{'A summary of eighty columns, with letters such as ß and –, ':<79}."
        sibling = Sibling.of(kind, LONGEST, summary=summary, author="Zoë Example")
        made[kind] = create(sibling, tmp_path_factory.mktemp(kind))
    return made


def ruff(*words: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *words, "--no-cache", "."],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_a_sibling_is_clean_as_it_is(siblings: Mapping[str, Path], kind: str) -> None:
    ruff("check", folder=siblings[kind])
    ruff("format", "--check", folder=siblings[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_sibling_says_what_it_offers(siblings: Mapping[str, Path], kind: str) -> None:
    text = (siblings[kind] / "pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]
    module = LONGEST.replace("-", "_")
    assert project["entry-points"] == {
        f"agentic_kernel.{kind}s": {LONGEST: f"{module}.entry:{kind.upper()}"}
    }
    assert project["authors"] == [{"name": "Zoë Example"}]
    ours = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    pins = [each for each in ours["dependencies"] if each.startswith("agentic-kernel-")]
    assert project["dependencies"][: len(pins)] == pins


@pytest.mark.torture
def test_a_sibling_with_the_shortest_name_is_clean(tmp_path: Path) -> None:
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        # In YAML, this name would be False without its quotes.
        made = create(Sibling.of(kind, "no"), tmp_path / kind)
        ruff("check", folder=made)
        ruff("format", "--check", folder=made)
        assert recopy(made).written == ()


def test_no_file_of_the_templates_is_compiled_by_an_installer() -> None:
    """Its bytecode would lie among the templates, and so become a part of new packages."""
    templates = Path(agentic_kernel_new.__file__).parent / "templates"
    assert [path for path in templates.rglob("*.py") if path.is_file()] == []
    assert "__pycache__" in (templates / "copier.yml").read_text("utf-8")


@pytest.mark.parametrize(("tag", "code"), [("v0.1.0", 0), ("v0.2.0", 1)])
def test_the_release_refuses_a_tag_that_is_not_the_version(
    siblings: Mapping[str, Path], tag: str, code: int
) -> None:
    made = siblings["store"]
    workflow = (made / ".github/workflows/release.yml").read_text("utf-8")
    (step,) = re.findall(r"- name: Compare.*?run: \|\n(.*?)\n {6}- ", workflow, re.DOTALL)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-e", "-c", step], cwd=made, capture_output=True, text=True, timeout=60,
        check=False, env={"PATH": path, "GITHUB_REF_NAME": tag},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    if code:
        assert "the tag is v0.2.0, and pyproject.toml has 0.1.0; push the tag v0.1.0" in done.stderr


def test_each_daily_run_draws_seeds_of_its_own(siblings: Mapping[str, Path]) -> None:
    """The step of the workflow, for a moment and with one test of the kit."""
    made = siblings["runtime"]
    workflow = (made / ".github/workflows/daily.yml").read_text("utf-8")
    (step,) = re.findall(r"- name: Draw seeds.*?run: \|\n(.*?)\n {6}- ", workflow, re.DOTALL)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {
        "PATH": path, "PYTHONPATH": "src", "PYTEST_ADDOPTS": "-p no:cacheprovider -k any_history",
        "MINUTES": "0.001", "GITHUB_RUN_NUMBER": "7",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-e", "-c", step], cwd=made, capture_output=True, text=True, timeout=60,
        check=False, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "from seed 7000000000: " in done.stdout
    report = json.loads((made / "daily.json").read_text("utf-8"))
    assert (report["level"], report["seed"]) == ("full", 7_000_000_000)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_whose_contract_draws_seeds_has_the_daily_run(
    siblings: Mapping[str, Path], kind: str
) -> None:
    contract = (siblings[kind] / "tests/test_contract.py").read_text("utf-8")
    (name,) = set(re.findall(r"\b\w+Contract\b", contract))
    tests = inspect.getmembers(getattr(agentic_kernel_conformance, name), inspect.isfunction)
    marks = [mark.name for _, test in tests for mark in getattr(test, "pytestmark", ())]
    daily = (siblings[kind] / ".github/workflows/daily.yml").exists()
    assert daily == ("random" in marks)


def test_no_paragraph_stands_in_the_readmes_of_two_templates() -> None:
    templates = Path(agentic_kernel_new.__file__).parent / "templates"
    sources: dict[str, str] = {}
    for kind in KINDS:
        text = (templates / kind / "README.md.jinja").read_text("utf-8")
        for paragraph in re.sub(r"```.*?```", "", text, flags=re.DOTALL).split("\n\n"):
            if len(paragraph) > 80:
                other = sources.setdefault(paragraph, kind)
                assert other == kind, f"move it to the folder `shared`: {paragraph}"


async def test_a_store_that_cannot_open_its_file_says_what_to_do(
    siblings: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(siblings["store"] / "src")
    module = LONGEST.replace("-", "_")
    made = importlib.import_module(module)
    [name] = [name for name in made.__all__ if name.endswith("Store")]
    store = getattr(made, name)(tmp_path / "no" / "tasks.db")
    try:
        with pytest.raises(StoreError) as refused:
            await store.load("it")
    finally:
        store.close()
        for each in [each for each in sys.modules if each.partition(".")[0] == module]:
            monkeypatch.delitem(sys.modules, each)
    assert str(refused.value) == (
        f"{tmp_path / 'no' / 'tasks.db'}: unable to open database file; name a file in a folder "
        "that is there and that you may write to"
    )
