"""The programs of the documentation run as they stand."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentic_kernel_copilot import find_cli
from agentic_kernel_engine import Limits, StopReason
from agentic_kernel_new import Sibling, create

from .pages import installs
from .peers.aimock import Aimock
from .peers.node import installed

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
READMES = [ROOT / "README.md", *sorted(ROOT.glob("packages/*/README.md"))]
ELSEWHERE = {ROOT / "packages" / "local" / "README.md"}
"""Its package's own tests run it, and look at what the real model says."""
LOOP = ROOT / "docs" / "loop.md"
SEAMS = ROOT / "docs" / "seams.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [
    (path, code)
    for path in READMES
    if path not in ELSEWHERE
    for code in BLOCK.findall(path.read_text())
]
PROMISED = {
    example: printed
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    for example, printed in re.findall(
        r'^--8<-- "examples/(\w+)\.py"$.*?^It prints.*?^```text\n(.*?)^```',
        page.read_text(), re.MULTILINE | re.DOTALL,
    )
}  # fmt: skip
"""What a tutorial says that its program prints."""
LOGGED = {"loop": "step 1: the tool 'write' failed\n", "look": "no Tasks in postgresql://"}
"""By example: the message about what goes wrong, or is missing, there on purpose."""
SECTION = re.compile(r"# --8<-- \[start:(\w+)\]\n(.*?)# --8<-- \[end:\1\]", re.DOTALL)


def calling(asked: str, tool: str, arguments: dict[str, Any], answer: str) -> list[dict[str, Any]]:
    """A model that calls a tool for this message, and answers after the result."""
    call = {"name": tool, "arguments": json.dumps(arguments), "id": "call_1"}
    return [
        {
            "match": {"userMessage": asked, "hasToolResult": False},
            "response": {"toolCalls": [call]},
        },
        {"match": {"userMessage": asked}, "response": {"content": answer}},
    ]


@pytest.fixture(scope="module")
def vendors() -> Iterator[Mapping[str, str]]:
    """Where the vendors' clients are led: to a peer with an answer of text, and one of JSON."""
    advice = {"city": "Bonn", "umbrella": True}
    layered = {**advice, "layers": 2}
    fixtures = [
        *calling(
            "Pay the plumber", "pay", {"to": "the plumber", "euros": 80}, "The plumber is paid."
        ),
        *calling("Make today", "writer", {"instructions": "Write."}, "Sunny, with some wind."),
        *calling("weather in Bonn", "weather", {"city": "Bonn"}, "It rains."),
        {"match": {"userMessage": "umbrella in"}, "response": {"content": json.dumps(layered)}},
        {"match": {"userMessage": "umbrella?"}, "response": {"content": json.dumps(advice)}},
        {"match": {}, "response": {"content": "The sky scatters blue light."}},
    ]
    with Aimock(fixtures) as peer:
        yield {
            "OPENAI_BASE_URL": f"{peer.url}/v1",
            "OPENAI_API_KEY": "none",
            "ANTHROPIC_BASE_URL": peer.url,
            "ANTHROPIC_API_KEY": "none",
            "OLLAMA_HOST": peer.url,
            "GOOGLE_GEMINI_BASE_URL": f"{peer.url}/v1beta",
            "GEMINI_API_KEY": "none",
        }


@pytest.fixture(scope="module")
def copilot(vendors: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same for the Copilot CLI, which has a home of its own."""
    home = str(tmp_path_factory.mktemp("copilot"))
    return {
        "COPILOT_CLI_PATH": str(find_cli(installed("copilot"))),
        "COPILOT_PROVIDER_BASE_URL": vendors["OPENAI_BASE_URL"],
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": "scripted",
        "COPILOT_HOME": home,
        "HOME": home,
        "XDG_CACHE_HOME": home,
    }


def run(
    arguments: list[str], folder: Path, env: Mapping[str, str] | None = None, logged: str = ""
) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments], env={**os.environ, **(env or {})},
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert logged in done.stderr if logged else done.stderr == ""
    return done.stdout


def marks(text: str) -> list[pytest.MarkDecorator]:
    """A real model takes a while, and so does a CLI."""
    real = ("agentic_kernel_local", "agentic_kernel_copilot")
    return [pytest.mark.slow] if any(name in text for name in real) else []


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=marks(path.read_text())) for path in EXAMPLES],
)
def test_an_example_runs_and_prints_something(
    path: Path, tmp_path: Path, vendors: Mapping[str, str]
) -> None:
    printed = run([str(path)], tmp_path, vendors, LOGGED.get(path.stem, ""))
    assert printed.strip()
    assert printed == PROMISED.get(path.stem, printed)


@pytest.mark.torture
def test_an_example_says_why_its_task_failed(tmp_path: Path) -> None:
    """The model gives no value of the type; the program names the Task's own failure."""
    path = ROOT / "docs" / "examples" / "go_on.py"
    with Aimock([{"match": {}, "response": {"content": "I cannot tell."}}]) as peer:
        env = {**os.environ, "OPENAI_BASE_URL": f"{peer.url}/v1", "OPENAI_API_KEY": "none"}
        done = subprocess.run(
            [sys.executable, str(path)], env=env, cwd=tmp_path, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "TaskFailed: engine/" in done.stderr.splitlines()[-1]
    assert "the model's final answer was refused" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, id=f"{path.parent.name}-{number}", marks=marks(code))
        for number, (path, code) in enumerate(BLOCKS)
    ],
)
def test_the_code_in_a_readme_runs(
    code: str, tmp_path: Path, vendors: Mapping[str, str], request: pytest.FixtureRequest
) -> None:
    env = dict(vendors)
    if "agentic_kernel_copilot" in code:
        env |= request.getfixturevalue("copilot")
    run(["-c", code], tmp_path, env)


@pytest.mark.parametrize("page", [LOOP, SEAMS], ids=["loop", "seams"])
def test_the_code_on_a_page_is_one_program_that_runs(page: Path, tmp_path: Path) -> None:
    """What a comment says that a line prints is among what is printed."""
    code = "\n".join(BLOCK.findall(page.read_text()))
    printed = run(["-c", code], tmp_path)
    promised = re.findall(r"print\(.*\)  # (.+)$", code, re.MULTILINE)
    assert len(promised) >= 4
    assert [line for line in promised if line not in printed.splitlines()] == []


def test_the_page_of_the_loop_has_every_limit_and_every_reason() -> None:
    words = set(re.findall(r"`(\w+)`", LOOP.read_text()))
    assert {*Limits.__struct_fields__, *StopReason} - words == set()


APPROVALS = [
    "payments",
    pytest.param("payments_local", marks=[pytest.mark.slow, pytest.mark.torture]),
]
"""The programs of the tutorial of approvals; the second asks a real model."""


@pytest.mark.parametrize("example", APPROVALS)
def test_the_program_of_the_tutorial_of_approvals_may_run_again(
    example: str, tmp_path: Path, vendors: Mapping[str, str]
) -> None:
    path = str(ROOT / "docs" / "examples" / f"{example}.py")
    assert run([path], tmp_path, vendors) == PROMISED[example]
    assert run([path], tmp_path, vendors) == "success\nThe plumber is paid.\n"


@pytest.mark.parametrize("example", APPROVALS)
def test_the_lines_of_the_tutorial_of_approvals_work_in_a_terminal(
    example: str, tmp_path: Path, vendors: Mapping[str, str]
) -> None:
    shutil.copy(ROOT / "docs" / "examples" / f"{example}.py", tmp_path)
    page = (ROOT / "docs" / "tutorials" / "approvals.md").read_text()
    [lines] = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert f"`{example}:cashier`" in page.partition("```sh\n")[0]
    lines = lines.replace("payments:cashier", f"{example}:cashier")
    run_it, *looks, approve = lines.splitlines()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def typed(line: str, answer: bytes = b"") -> tuple[int, str]:
        person, terminal = pty.openpty()
        os.write(person, answer)
        done = subprocess.run(
            line, shell=True, cwd=tmp_path, env={**os.environ, **vendors, "PATH": path},
            stdin=terminal, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        os.close(person)
        os.close(terminal)
        return done.returncode, done.stdout + done.stderr

    code, said = typed(run_it)
    assert code == 3, said
    for line in looks:
        code, said = typed(line)
        assert code == 0, said
        assert "bill" in said
    code, said = typed(approve, b"y\n")
    assert code == 0, said
    assert "The plumber is paid." in said


WORKFLOW = re.compile(
    r"^```yaml title=\"\.github/workflows/.*?\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def test_a_workflow_on_a_page_finds_the_packages_as_a_generated_one_does(tmp_path: Path) -> None:
    create(Sibling.of("runtime", "acme-found"), tmp_path)
    found = {}
    for name in ("tests", "daily"):
        path = tmp_path / "acme-found" / ".github" / "workflows" / f"{name}.yml"
        [job] = yaml.safe_load(path.read_text())["jobs"].values()
        found[name] = {key: value for key, value in job["env"].items() if key.startswith("PIP_")}
    [workflow] = WORKFLOW.findall((ROOT / "docs" / "benchmarks.md").read_text())
    [job] = yaml.safe_load(workflow)["jobs"].values()
    assert job.get("env") == found["tests"] == found["daily"]
    [measure] = [step["run"] for step in job["steps"] if "install" in step.get("run", "")]
    in_the_checkout = measure[measure.index('(cd "$side"') :]
    assert in_the_checkout.count(" install ") == measure.count(" install ") == 2


@pytest.mark.parametrize(("version", "said"), [("0.2.0.dev0", 1), ("0.2.0", 0), ("1.0.0", 0)])
def test_a_workflow_on_a_page_names_wheels_only_before_a_release(version: str, said: int) -> None:
    page = ROOT / "docs" / "benchmarks.md"
    text = installs.renewed(page.read_text(), version, page)
    assert text.count("PIP_FIND_LINKS") == text.count("PIP_CONSTRAINT") == said
    assert installs.renewed(text, installs.release(), page) == page.read_text()


def test_there_is_code_to_run() -> None:
    assert set(PROMISED) == {"payments", "payments_local", "traced"}
    assert {path.stem for path in EXAMPLES} >= {"kernel", "host", "local", "loop"}
    assert {path.parent.name for path, _ in BLOCKS} >= {"kernel", "engine", "file"}


def test_the_example_of_the_readme_is_the_one_of_the_docs() -> None:
    found = SECTION.search((ROOT / "docs" / "examples" / "host.py").read_text())
    assert found is not None
    assert found[2] in (ROOT / "README.md").read_text()


def test_the_program_of_getting_started_is_one_of_the_readmes() -> None:
    blocks = BLOCK.findall((ROOT / "docs" / "getting-started.md").read_text())
    [code] = [block for block in blocks if not block.startswith("--8<--")]
    assert code in [block for _, block in BLOCKS]


def test_links_in_the_readmes_lead_somewhere() -> None:
    for path in READMES:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            if not target.startswith("https://"):
                assert (path.parent / target).exists(), f"{path}: {target}"
