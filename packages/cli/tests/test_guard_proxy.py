"""The guard in front of a real MCP server, used by foreign clients and decided by a person."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp
import mcp_types as types
import pytest
from mcp.client.stdio import StdioServerParameters
from typer.testing import CliRunner

from agentic_kernel_cli.commands import app
from agentic_kernel_cli.kinds import install
from agentic_kernel_cli.user import process_user
from agentic_kernel_engine import Principal
from agentic_kernel_guard import (
    ApprovalNeeded,
    AsGiven,
    CapabilityRequest,
    CapabilitySpec,
    Guard,
    Keyring,
    Registry,
    RulePolicy,
    SQLiteGuardStore,
    StaticRouter,
)
from agentic_kernel_guard.rules import parse
from agentic_kernel_guard.stores import Kept
from integration import peers
from integration.peers.node import installed, node

from .test_guarding import command

RULES = """version: 1
rules:
- {name: reads, priority: 1, effect: allow, match: {safety: read}}
- {name: own, priority: 2, effect: allow, match: {safety: write, role: writer}}
- {name: asks, priority: 3, effect: require_approval, match: {safety: destructive},
   approval: {timeout_seconds: 600}}
"""
SPECS = """version: 1
capabilities:
- {tool: read_file, offered: false}
- {tool: read_text_file, name: files/read, sensitive_fields: [iban]}
- {tool: list_allowed_directories, mode: handle_only}
"""
KEY = f"k1:{bytes(range(32)).hex()}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Rules, specs and keys, and a folder of files for the server."""
    files = (tmp_path / "files").resolve()
    files.mkdir()
    (files / "notes.txt").write_text("card 4111 1111 1111 1111\n")
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "specs.yaml").write_text(SPECS)
    (tmp_path / "keys").write_text(KEY)
    (tmp_path / "keys").chmod(0o600)
    return tmp_path


def server(folder: Path) -> list[str]:
    """The command of the filesystem server."""
    package = installed("mcp-servers") / "node_modules" / "@modelcontextprotocol"
    program = package / "server-filesystem" / "dist" / "index.js"
    return [str(node()), str(program), str(folder / "files")]


def words(folder: Path, *more: str) -> list[str]:
    """The command of the proxy in front of it."""
    given = ("--policy", "rules.yaml", "--specs", "specs.yaml", "--keys", "keys")
    places = [str(folder / each) if not each.startswith("--") else each for each in given]
    return [
        "guard", "proxy", *places, "--store", str(folder / "guard.db"), "--name", "files",
        "--pins", str(folder / "pins.json"), *more, "--", *server(folder),
    ]  # fmt: skip


@asynccontextmanager
async def client(folder: Path, *more: str) -> AsyncIterator[mcp.Client]:
    started = StdioServerParameters(
        command=sys.executable, args=["-m", "agentic_kernel_cli", *words(folder, *more)]
    )
    async with mcp.Client(started, read_timeout_seconds=60.0) as made:
        yield made


def text(result: types.CallToolResult) -> str:
    content = result.content[0]
    assert isinstance(content, types.TextContent)
    return content.text


def named(result: types.CallToolResult) -> str:
    """The id of the request that an error names."""
    assert result.is_error
    said = text(result)
    assert said.startswith("guard/approval_needed: ")
    return said.rpartition("request ")[2]


def run(*given: str) -> Any:
    """A command in this process; its error is the result's exception."""
    return CliRunner().invoke(app, given, standalone_mode=False)


def refusal(*given: str) -> str:
    """The words of a command that is refused."""
    error = run(*given).exception
    assert error is not None
    said = getattr(error, "format_message", error.__str__)
    return str(said())


async def test_a_destructive_call_is_refused_then_approved_elsewhere_and_explained(
    folder: Path,
) -> None:
    store = ("--store", str(folder / "guard.db"))
    decide = (*store, "--keys", str(folder / "keys"), "--yes")
    path = folder / "files" / "new.txt"
    async with client(folder) as made:
        assert "agentic-kernel guard approve" in (made.instructions or "")
        tools = {each.name: each for each in (await made.list_tools()).tools}
        assert {"read", "write_file", "expand"} <= tools.keys()
        assert "read_file" not in tools, "the spec file does not offer it"
        assert "justification" in tools["write_file"].input_schema["properties"]
        assert "justification" not in tools["read"].input_schema["properties"]
        read = await made.call_tool("read", {"path": str(folder / "files" / "notes.txt")})
        frame = read.structured_content
        assert frame is not None
        assert (frame["rows"], frame["source"]) == ([{"content": "card [card]\n"}], "files")
        more = await made.call_tool("expand", {"handle": frame["handle"]})
        assert more.structured_content is not None
        assert more.structured_content["rows"] == frame["rows"]

        denied = await made.call_tool("create_directory", {"path": str(folder / "files" / "d")})
        assert text(denied).startswith("guard/denied: ")
        assert "(action g_" in text(denied)

        write = {"path": str(path), "content": "new", "justification": "the user wants it"}
        id = named(await made.call_tool("write_file", write))
        assert named(await made.call_tool("write_file", {**write, "justification": ""})) == id
        assert not path.exists()
        code, listed = await asyncio.to_thread(command, "--json", "guard", "approvals", *store)
        waiting = json.loads(listed)
        assert (waiting["id"], waiting["principal"]) == (id, "agent")
        assert waiting["arguments"] == {"path": str(path), "content": "new"}
        code, said = await asyncio.to_thread(command, "guard", "approve", id, *decide)
        assert (code, "approved" in said) == (0, True)
        done = await made.call_tool("write_file", write)
        assert not done.is_error
        assert path.read_text() == "new"
        assert named(await made.call_tool("write_file", write)) != id, "it was for one call"
    code, said = await asyncio.to_thread(command, "--json", "guard", "explain", id, *store)
    whole = json.loads(said)
    assert (code, whole["outcome"]) == (0, "succeeded")
    kinds = [entry["kind"] for entry in whole["entries"]]
    assert kinds == ["asked", "asked", "approved", "granted", "began", "ended"]
    assert whole["entries"][2]["by"] == process_user()
    assert whole["entries"][0]["arguments"] == {"path": str(path), "content": "new"}


async def test_the_proxy_forgets_results_whose_time_is_over(folder: Path) -> None:
    store = SQLiteGuardStore(folder / "guard.db")
    await store.finish("a", "{}", '{"action":"a"}', Kept("h_old", "agent", "", "[1]", until=1))
    served = [
        sys.executable,
        str(Path(peers.__file__).parent / "plain_mcp.py"),
        str(folder / "log"),
    ]
    given = ("--policy", "rules.yaml", "--keys", "keys", "--store", "guard.db")
    started = StdioServerParameters(
        command=sys.executable, cwd=folder,
        args=["-m", "agentic_kernel_cli", "guard", "proxy", *given, "--", *served],
    )  # fmt: skip
    assert await store.kept("h_old", now=0) is not None
    async with mcp.Client(started, read_timeout_seconds=60.0) as made:
        assert await made.list_tools()
        assert await store.kept("h_old", now=0) is None
    await store.close()


WRONG = [
    ((), "give either --url"),
    (("--url", "http://127.0.0.1:9", "--", "x"), "give either --url"),
    (("--url", "http://example.org/mcp"), "which is not this machine"),
    (("--env", "NOT_SET_HERE", "--", "x"), "is not set"),
    (("--header", "a=PATH", "--", "x"), "--header goes with --url"),
    (("--credential", "keys", "--", "x"), "go with --listen"),
    (("--listen", "8080", "--", "x"), "HOST:PORT"),
    (("--listen", "0.0.0.0:0", "--", "x"), "give a credential"),
    (("--kind", "robot", "--", "x"), "principal.kind"),
    (("--principal", "", "--", "x"), "name for whom"),
    (("--mode", "all", "--", "x"), "mode"),
    (("--policy", "specs.yaml", "--", "x"), "specs.yaml, line"),
    (("--specs", "rules.yaml", "--", "x"), "rules.yaml, line"),
    (("--name", "a/b", "--", "x"), "use 1 to 32 of"),
    (("--", "no-such-program"), "was not found"),
]


@pytest.mark.parametrize(("given", "says"), WRONG, ids=[" ".join(given) for given, _ in WRONG])
def test_what_cannot_be_used_is_refused_before_a_client_is_served(
    folder: Path, given: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    always = ("guard", "proxy", "--store", "guard.db", "--keys", "keys")
    assert says in refusal(*always, *given)


@pytest.mark.parametrize(
    ("given", "missing", "extra"),
    [
        (("proxy", "--store", "g", "--keys", "keys", "--", "x"), "agentic_kernel_mcp", "mcp"),
        (("proxy", "--store", "g", "--keys", "keys", "--", "x"), "agentic_kernel_guard", "guard"),
        (("tools", "--", "x"), "agentic_kernel_mcp", "mcp"),
        (("keys", "new"), "agentic_kernel_guard", "guard"),
        (("approvals", "--store", "g"), "agentic_kernel_guard", "guard"),
        (("approve", "q", "--store", "g"), "agentic_kernel_guard", "guard"),
        (("explain", "q", "--store", "g"), "agentic_kernel_guard", "guard"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(
    folder: Path, given: tuple[str, ...], missing: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, missing, None)
    assert install(extra) in refusal("guard", *given)
    assert not (folder / "new").exists()


def test_keys_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    assert run("guard", "keys", str(file)).exception is None
    assert file.stat().st_mode & 0o777 == 0o600
    made = file.read_text()
    assert "is there already" in refusal("guard", "keys", str(file))
    assert file.read_text() == made
    assert "1 to 32 letters" in refusal("guard", "keys", str(tmp_path / "x"), "--id", "a b")
    assert not (tmp_path / "x").exists()


async def asked_by_ann(folder: Path) -> str:
    """A store with one request."""
    store = SQLiteGuardStore(folder / "guard.db")
    spec = CapabilitySpec("bank/pay", "pay", "pay")
    guard = Guard(
        Registry([spec]), StaticRouter({}), policy=RulePolicy(parse(RULES)), store=store,
        keys=Keyring.read(KEY), resolver=AsGiven(),
    )  # fmt: skip
    request = CapabilityRequest("bank/pay", {"t\u200bo": "\x1b[2J\\"}, ask=True)
    ids = set()
    for why in ("ple\x1base", "now", "now"):
        with pytest.raises(ApprovalNeeded) as needed:
            await guard.grant_capability(request, Principal("ann", "acme"), why)
        ids.add(needed.value.action)
    await store.close()
    (id,) = ids
    return id


def test_a_decision_needs_a_request_keys_and_a_person(folder: Path) -> None:
    id = asyncio.run(asked_by_ann(folder))
    store, keys = ("--store", str(folder / "guard.db")), ("--keys", str(folder / "keys"))
    listed = run("guard", "approvals", *store).output
    assert "ann of acme wants bank/pay (destructive)" in listed
    # Each text is escaped once, in one way.
    assert '    t\\u200bo = "\\u001b[2J\\\\"\n' in listed
    assert '    it says why: "ple\\u001base"\n    it also said why: "now"\n' in listed
    assert "\x1b" not in listed
    assert "\\x1b" not in listed
    none = ("--store", str(folder / "none.db"))
    for given, says in (
        ((id, *store), "there are no keys"),
        ((id, *store, *keys), "no terminal to ask on"),
        (("q_none", *store, *keys, "--yes"), "no such request"),
        ((id, *none, *keys, "--yes"), "no such file"),
    ):
        assert says in refusal("guard", "approve", *given)
    denied = run("guard", "deny", id, *store, *keys, "--yes", "--note", "not now")
    assert "refused" in denied.output
    late = refusal("guard", "approve", id, *store, *keys, "--yes")
    assert f"{process_user()} has refused" in late
    told = run("guard", "explain", id, *store).output
    assert told.startswith(f"{id}: denied")
    assert 'note: "not now"' in told
    assert "no such action" in refusal("guard", "explain", "q_x", *store)
