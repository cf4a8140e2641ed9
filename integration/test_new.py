"""New packages, made by the command: as the pages show them, as ours are, and beside our wheels."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_new import KINDS, Kind, Sibling, create

from .pages import tutorials
from .peers.llama import LlamaServer

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "new.md"
OTEL: Final = ROOT / "packages" / "otel"
OURS: Final = ("kernel", "engine", "file", "cli", "new", "conformance")
"""The members that a new package is developed with."""
NAMES: Final[Mapping[Kind, str]] = {
    "observer": "acme-lines",
    "provider": "acme-models",
    "runtime": "acme-shell",
    "store": "acme-tables",
}
CONSOLE: Final = re.compile(
    r"^```console(?: title=\"(\w+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL
)
PYTHON: Final = re.compile(r"^```python(?: title=\"(\S+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def console(page: Path, title: str = "", holding: str = "") -> str:
    """The transcript on a page with this title, or that has this text."""
    (found,) = (
        text
        for name, text in CONSOLE.findall(page.read_text("utf-8"))
        if name == title and holding in text
    )
    return str(found)


def play(transcript: str, folder: Path, env: Mapping[str, str], seconds: float) -> None:
    """Run the commands of a transcript in one shell, and compare what each one prints.

    A line ``...`` stands for any number of lines, and ``…`` for any text of a line.
    Warnings of pip are about the machine's indexes.
    """
    steps = [
        (lines[0], "".join(f"{line}\n" for line in lines[1:]))
        for lines in (part.splitlines() for part in transcript.split("$ ")[1:])
    ]
    script = "".join(f"{command}\nprintf '\\036'\n" for command, _ in steps)
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=env, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    printed = done.stdout.split("\036")
    for (command, expected), shown in zip(steps, printed, strict=False):
        if command.startswith("pip "):
            shown = re.sub(r"^WARNING: .*\n", "", shown, flags=re.MULTILINE)
        parts = [re.escape(line).replace("…", ".*") for line in expected.splitlines()]
        form = "".join(r"(?:.*\n)*?" if part == re.escape("...") else f"{part}\n" for part in parts)
        assert re.fullmatch(form, shown), f"$ {command}\n{shown[-3000:]}\nand not\n{expected}"
    assert len(printed) == len(steps) + 1, printed[-1]


def here() -> dict[str, str]:
    """The environment in which ``agentic-kernel`` is this interpreter's."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COLUMNS": "200"}


def test_a_package_is_made_as_the_page_shows(tmp_path: Path) -> None:
    play(console(PAGE, "make"), tmp_path, here(), 60)
    checked = console(PAGE, "check")
    formatted = "$ ruff format --check .\n"
    _, found, rest = checked.partition(formatted)
    play(f"{formatted}{rest.splitlines()[0]}\n", tmp_path / "acme-shell", here(), 60)
    assert found
    sources = len(list((tmp_path / "acme-shell").rglob("*.py")))
    assert f"Success: no issues found in {sources} source files\n" in checked


def test_the_tutorials_install_a_package_as_its_page_does() -> None:
    lines = console(PAGE, "check").partition("$ ruff")[0]
    for page, sibling in tutorials.PAGES.items():
        assert console(page, "install") == f"$ cd {sibling.name}\n{lines}"


def test_our_observer_is_what_the_template_makes(tmp_path: Path) -> None:
    """Its files, its project and the shape of its entry; the work inside is its own."""
    ours = tomllib.loads((OTEL / "pyproject.toml").read_text("utf-8"))
    made = create(
        Sibling(
            kind="observer",
            name="agentic-kernel-otel",
            entry="otel",
            title="OTel",
            summary=ours["project"]["description"],
        ),
        tmp_path,
    )
    for name in (
        "LICENSE", "README.md", "pyproject.toml", "src/agentic_kernel_otel/__init__.py",
        "src/agentic_kernel_otel/entry.py", "src/agentic_kernel_otel/observer.py",
        "src/agentic_kernel_otel/py.typed", "tests/test_contract.py", "tests/test_package.py",
    ):  # fmt: skip
        assert (made / name).is_file(), name
        assert (OTEL / name).is_file(), name
    assert (made / "LICENSE").read_bytes() == (OTEL / "LICENSE").read_bytes()
    theirs = tomllib.loads((made / "pyproject.toml").read_text("utf-8"))
    assert theirs["build-system"] == ours["build-system"]
    assert theirs["tool"]["hatch"] == ours["tool"]["hatch"]
    mine, template = ours["project"], theirs["project"]
    assert list(template) == list(mine)  # The same keys in the same order.
    assert set(template.pop("dependencies")) <= set(mine.pop("dependencies"))
    assert template.pop("version") == "0.1.0"
    assert mine.pop("version")
    assert template == mine
    entry = "src/agentic_kernel_otel/entry.py"
    assert shape(made / entry) <= shape(OTEL / entry)
    contract = "tests/test_contract.py"
    assert shape(made / contract) <= shape(OTEL / contract) | {"kept", "features"}
    for readme in (made / "README.md", OTEL / "README.md"):
        text = readme.read_text("utf-8")
        assert text.startswith("# agentic-kernel-otel\n")
        assert "OTelObserver" in PYTHON.findall(text)[0][1]


def test_the_names_of_our_own_entries_are_taken() -> None:
    """Each name is refused whether its package is installed or not."""
    kinds: dict[str, Kind] = {f"agentic_kernel.{kind}s": kind for kind in KINDS}
    ours = [
        (kinds[group], name)
        for file in sorted(ROOT.glob("packages/*/pyproject.toml"))
        for group, points in tomllib.loads(file.read_text("utf-8"))["project"]
        .get("entry-points", {})
        .items()
        if group in kinds
        for name in points
    ]
    assert {kind for kind, _ in ours} == set(KINDS)
    for kind, name in ours:
        with pytest.raises(InvalidValue, match="a package of this project"):
            Sibling.of(kind, "acme-x", entry=name)


def shape(file: Path) -> set[str]:
    """The names that a module gives to its classes, their parts, and its constants of an entry."""
    found = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            bases = ",".join(map(ast.unparse, node.bases))
            found.add(f"class {node.name}({bases})")
            found |= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            found |= {
                ast.unparse(target)
                for part in node.body
                if isinstance(part, ast.Assign)
                for target in part.targets
            }
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
            found.add(f"{ast.unparse(node.target)} = {ast.unparse(node.value.func)}")
    return found


def test_the_tutorials_hold_the_code_of_the_templates() -> None:
    tutorials.main(["--check"])


def test_the_programs_of_the_tutorials_run_as_they_stand(tmp_path: Path) -> None:
    """Each line prints the text of its comment."""
    for page, sibling in tutorials.PAGES.items():
        made = create(sibling, tmp_path)
        code = [
            text for name, text in PYTHON.findall(page.read_text("utf-8"))
            if name in ("", "tests/naive.py")
        ]  # fmt: skip
        for text in code:
            done = subprocess.run(
                [sys.executable, "-W", "error", "-c", text], cwd=tmp_path, check=False,
                env={**os.environ, "PYTHONPATH": str(made / "src")}, capture_output=True,
                text=True, timeout=60,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            promised = re.findall(r"print\(.*\)  # (.+)$", text, re.MULTILINE)
            assert promised
            assert done.stdout.splitlines() == promised
        assert code


@pytest.mark.parametrize("kind", [pytest.param("runtime", marks=pytest.mark.torture), "store"])
def test_the_bench_measures_a_new_package(kind: Kind, tmp_path: Path) -> None:
    made = create(Sibling.of(kind, NAMES[kind]), tmp_path)
    readme = (made / "README.md").read_text("utf-8")
    (words,) = re.findall(r"`agentic-kernel-conformance (bench [^`]+)`", readme)
    command = [sys.executable, "-m", "agentic_kernel_conformance", *words.split(), "--rounds=1"]
    told = run(command, made, {"PYTHONPATH": str(made / "src")})
    assert "tests.bench:make | 5 of 5 |" in told if kind == "store" else "tests.bench:make" in told
    assert "differs" not in told


@pytest.mark.torture
def test_the_kit_says_of_the_first_version_what_the_tutorial_says(tmp_path: Path) -> None:
    page = ROOT / "docs" / "tutorials" / "substrate.md"
    code = dict(PYTHON.findall(page.read_text("utf-8")))
    made = create(tutorials.PAGES[page], tmp_path)
    for name in ("tests/naive.py", "tests/test_naive.py"):
        (made / name).write_text(code[name], "utf-8")
    env = {**here(), "PYTHONPATH": str(made / "src")}
    play(console(page, holding="test_naive.py"), made, env, 600)


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels that a new package is developed with, and the constraints that name them."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    pins = []
    for name in OURS:
        source = ROOT / "conformance" if name == "conformance" else ROOT / "packages" / name
        project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]
        pins.append(f"{project['name']}=={project['version']}\n")
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
            cwd=source, check=True, capture_output=True, timeout=120,
        )  # fmt: skip
    (folder / "constraints.txt").write_text("".join(pins))
    return folder


@pytest.fixture(scope="module")
def pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter whose pip knows dependency groups."""
    folder = tmp_path_factory.mktemp("pip")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run([str(python), "-m", "pip", "install", "-q", "--upgrade", "pip>=25.1"], folder)
    return python


@pytest.mark.torture
def test_a_package_is_checked_as_the_page_shows(tmp_path: Path, wheelhouse: Path) -> None:
    made = create(Sibling.of("runtime", "acme-shell"), tmp_path)
    env = {**here(), "WHEELHOUSE": str(wheelhouse), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    quiet = {"PIP_ROOT_USER_ACTION": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
    play(console(PAGE, "check"), made, {**env, **quiet}, 1800)


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
def test_a_package_passes_everything_as_it_is_beside_our_wheels(
    kind: Kind, tmp_path: Path, wheelhouse: Path, pip: Path
) -> None:
    """Style, types, the contract, the sdist and its wheel, the wheel alone, and its use by name."""
    pages = [page for page, sibling in tutorials.PAGES.items() if sibling.kind == kind]
    for page in pages:
        play(console(page, holding="agentic-kernel new"), tmp_path, here(), 60)
    made = tmp_path / NAMES[kind] if pages else create(Sibling.of(kind, NAMES[kind]), tmp_path)
    group = ("--editable", str(made), "--group", f"{made}/pyproject.toml:dev")
    tools = environment(pip, tmp_path / "tools", wheelhouse, *group)
    for words in (
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
        ["build", "."],
    ):
        run([str(tools), "-m", *words], made)
    tested = run([str(tools), "-m", "pytest", "-q", "-p", "no:cacheprovider"], made)
    assert f"{Sibling.of(kind, NAMES[kind]).contract}): passed" in tested
    assert "PARTIAL" not in tested
    for page in pages:
        env = {**here(), "PATH": f"{tools.parent}{os.pathsep}{os.environ['PATH']}"}
        play(console(page, "prove"), made, env, 600)
    (sdist,), (wheel,) = made.glob("dist/*.tar.gz"), made.glob("dist/*.whl")
    again = tmp_path / "again"
    run([str(pip), "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(again), str(sdist)], made)
    assert [path.name for path in again.iterdir()] == [wheel.name]
    alone = environment(pip, tmp_path / "alone", wheelhouse, str(wheel))
    names = ["agentic-kernel-core", "agentic-kernel-engine"]
    run([str(alone), "-I", str(ROOT / "integration" / "installed.py"), NAMES[kind]], made)
    assert set(names) <= distributions(alone)
    shell = made if kind == "runtime" else create(Sibling.of("runtime", "acme-shell"), tmp_path)
    others = [] if shell == made else [str(shell)]
    beside = environment(pip, tmp_path / "beside", wheelhouse, "agentic-kernel-engine", *others)
    install(made, pip, beside, wheelhouse)
    use(kind, made, beside, tmp_path)


def install(made: Path, pip: Path, python: Path, wheelhouse: Path) -> None:
    """Run the lines of the README that install the command and the package."""
    readme = (made / "README.md").read_text("utf-8")
    _, _, text = readme.partition("\nThen, in this folder and in the same shell:\n")
    lines = re.findall(r"^    (pip .+)$", text, re.MULTILINE)
    assert len(lines) == 2
    env = {
        "WHEELHOUSE": str(wheelhouse),
        "PATH": f"{pip.parent}{os.pathsep}{os.environ['PATH']}",
        "PIP_PYTHON": str(python),
    }
    run(["bash", "-e", "-c", "\n".join(lines)], made, env)


def use(kind: Kind, made: Path, python: Path, folder: Path) -> None:
    """Find the part in ``doctor``, run a Task with it by its name, and the README's program."""
    command = [str(python.with_name("agentic-kernel"))]
    readme = (made / "README.md").read_text("utf-8")
    (_, code), *_ = PYTHON.findall(readme)
    (doctor,) = re.findall(r"\| `agentic-kernel ([^`]*doctor[^`]*)` \|", readme)
    program = [str(python), "-W", "error", "-c", code]
    name, state = made.name, f"--state={folder / 'state'}"
    task = ["run", "--runtime", "acme-shell", "echo hello"]
    words = shlex.split(doctor.replace("/tmp/tasks.db", f"{folder}/checked.db"))
    looked = subprocess.run(
        [*command, *([] if kind == "store" else [state]), "--json", *words], cwd=folder,
        timeout=1800, capture_output=True, text=True,
        check=kind != "provider",  # It has no server yet.
    )  # fmt: skip
    details = {line["name"]: line["detail"] for line in map(json.loads, looked.stdout.splitlines())}
    assert f"{'runtime' if kind == 'provider' else kind} {name}" in details[name]
    if kind == "runtime":
        assert "hello\n" in run([*command, state, *task], folder)
        assert run(program, folder) == "1\n"
    elif kind == "store":
        kept = f"--state={name}://{folder / 'tasks.db'}?lease=5"
        assert "hello\n" in run([*command, kept, *task], folder)
        (listed,) = run([*command, kept, "--json", "list"], folder).splitlines()
        assert json.loads(listed)["status"] == "success"
        assert (folder / "tasks.db").exists()
        assert run(program, folder) == "hello\n"
    elif kind == "observer":
        watched = f"--observer={name}?path={folder / 'events.jsonl'}"
        assert "hello\n" in run([*command, state, watched, *task], folder)
        events = map(json.loads, (folder / "events.jsonl").read_text("utf-8").splitlines())
        assert "task.completed" in {event["type"] for event in events}
        assert '"type": "task.completed"' in run(program, folder)
    else:
        spec = importlib.util.spec_from_file_location("server", made / "tests" / "server.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        words = [*command, state, "run", "--runtime", name, "--model", "small-1", "Why?"]
        with module.Server() as server:
            there = {"ACME_MODELS_BASE_URL": server.url}
            assert "I cannot tell." in run(words, folder, there)
            assert run(program, folder, there) == "It is 42.\n"


ASKED: Final = """
import asyncio, sys
from agentic_kernel import Task
from agentic_kernel_engine.providers import ProviderRuntime
from acme_models import AcmeModelsPlanner

async def main():
    for stream in (True, False):
        planner = AcmeModelsPlanner(sys.argv[1], max_tokens=60, stream=stream)
        async with ProviderRuntime(planner, "acme-models", [], None, {}) as runtime:
            task = Task.new(summary="", instructions="Say hello.", runtime_kind="acme-models")
            done = await runtime.run(task)
            used = (await runtime.outcome(task.id)).usage
            print(bool(done.result) and used.input_tokens > 0 and used.output_tokens > 0)

asyncio.run(main())
"""


@pytest.mark.torture
def test_a_new_provider_asks_a_real_model(tmp_path: Path) -> None:
    made = create(Sibling.of("provider", "acme-models"), tmp_path)
    with LlamaServer() as server:
        env = {
            "ACME_MODELS_BASE_URL": f"{server.url}/v1",
            "ACME_MODELS_API_KEY": server.api_key,
            "PYTHONPATH": str(made / "src"),
        }
        said = run([sys.executable, "-W", "error", "-c", ASKED, server.model], tmp_path, env)
    assert said == "True\nTrue\n"


def environment(pip: Path, folder: Path, wheelhouse: Path, *wanted: str) -> Path:
    """The interpreter of a new environment with these packages, ours from the wheels."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    constraints = str(wheelhouse / "constraints.txt")
    words = ["--find-links", str(wheelhouse), "--constraint", constraints, *wanted]
    run([str(pip), "-m", "pip", "--python", str(python), "install", "-q", *words], folder)
    return python


def distributions(python: Path) -> set[str]:
    code = "from importlib.metadata import *; print(*{d.name for d in distributions()})"
    return set(run([str(python), "-I", "-c", code], python.parent).split())


def run(words: list[str], folder: Path, more: Mapping[str, str] | None = None) -> str:
    """Run a program to its end, which must be a success, and return all that it printed."""
    done = subprocess.run(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=1800, check=False, env={**os.environ, **(more or {})},
    )  # fmt: skip
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout[-4000:]}"
    return done.stdout
