"""The policy of a server: rule files, directories, reloads, and the decisions of the gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel_engine import MemoryStore, Record, StoreError
from agentic_kernel_server import Ruling, ToolCall
from agentic_kernel_server.policy import Gate, PolicyError, Rates
from agentic_kernel_server.policy.files import MAX_BYTES, read

MONDAY = datetime(2026, 3, 2, 10, 30, tzinfo=UTC)
HEAD = "version: 1\nrules:\n"


def rule(name: str, priority: int, effect: str, rest: str = 'match: {capability: "*"}') -> str:
    return f"  - {{name: {name}, priority: {priority}, effect: {effect}, {rest}}}\n"


def write(path: Path, *rules: str) -> Path:
    path.write_text(HEAD + "".join(rules))
    return path


def call(tool: str = "search", arguments: Any = None, **rest: Any) -> ToolCall:
    given: dict[str, Any] = {
        "execution_id": "e",
        "agent_id": "swe",
        "labels": {},
        "remote": False,
        "principal": "ann",
        "tenant": "red",
        "step_count": 0,
        "duration_ms": 0,
        "at": MONDAY,
        **rest,
    }
    return ToolCall(tool_id=tool, arguments=arguments, **given)


def gate(path: Path | None, store: MemoryStore | None = None) -> Gate:
    return Gate(path, Rates(store or MemoryStore(), lambda: MONDAY))


async def test_without_a_policy_every_tool_is_denied() -> None:
    ruling = await gate(None)(call())
    assert (ruling.effect, "--policy" in ruling.reason) == ("deny", True)


@pytest.mark.parametrize(
    ("rest", "holds", "fails"),
    [
        ("match: {agent: swe}", {}, {"agent_id": "qa"}),
        ("match: {labels: {team: red}}", {"labels": {"team": "red"}}, {"labels": {}}),
        ("match: {capability: 'sea*'}", {}, {"tool": "reach"}),
        ("match: {principal: ann}", {}, {"principal": "bob"}),
        ("match: {tenant: red}", {}, {"tenant": "blue"}),
        (
            "match: {capability: '*'}, arguments: {n: {max: 5}}",
            {"arguments": {"n": 5}},
            {"arguments": {"n": 6}},
        ),
        (
            "match: {capability: '*'}, when: {min_step_count: 3}",
            {"step_count": 3},
            {"step_count": 2},
        ),
        (
            "match: {capability: '*'}, when: {min_duration_ms: 500}",
            {"duration_ms": 500},
            {"duration_ms": 499},
        ),
        (
            "match: {capability: '*', labels: {server/repeated: 'true'}}",
            {"repeated": True, "labels": {"server/repeated": "false"}},
            {"repeated": False, "labels": {"server/repeated": "true"}},
        ),
        (
            "match: {capability: '*'}, when: {days: [mon], hours: '10:00-11:00'}",
            {},
            {"at": MONDAY.replace(hour=11)},
        ),
    ],
    ids=[
        "agent",
        "labels",
        "tool",
        "principal",
        "tenant",
        "arguments",
        "steps",
        "time",
        "repetition",
        "schedule",
    ],
)
async def test_a_rule_holds_by(
    tmp_path: Path, rest: str, holds: Mapping[str, Any], fails: Mapping[str, Any]
) -> None:
    decide = gate(write(tmp_path / "rules.yaml", rule("one", 1, "allow", rest)))
    assert (await decide(call(**holds))).effect == "allow"
    assert (await decide(call(**fails))).effect == "deny"


async def test_an_approval_names_who_may_give_it_and_how_long_it_may_take(tmp_path: Path) -> None:
    text = "match: {capability: pay}, approval: {approvers: [ann, bob], timeout_seconds: 60}"
    decide = gate(write(tmp_path / "rules.yaml", rule("pay", 1, "require_approval", text)))
    ruling = await decide(call("pay"))
    assert ruling == Ruling(
        "require_approval", "the rule pay says require_approval", "pay", ("ann", "bob"), 60.0
    )


@pytest.mark.parametrize("arguments", [[], [1], "text", 7, True])
async def test_arguments_that_no_rule_can_look_into_are_denied(
    tmp_path: Path, arguments: Any
) -> None:
    decide = gate(write(tmp_path / "rules.yaml", rule("all", 1, "allow")))
    assert (await decide(call(arguments=arguments))).effect == "deny"
    assert (await decide(call(arguments=None))).effect == "allow"


async def test_an_allowed_call_counts_and_a_denied_one_does_not(tmp_path: Path) -> None:
    store = MemoryStore()
    decide = gate(
        write(
            tmp_path / "rules.yaml",
            rule("purge", 1, "deny", "match: {capability: purge}"),
            rule(
                "all",
                2,
                "allow",
                'match: {capability: "*"}, limit: {calls: 2, seconds: 60, per: principal}',
            ),
        ),
        store,
    )
    for _ in range(5):
        assert (await decide(call("purge"))).effect == "deny"
    assert [(await decide(call())).effect for _ in range(3)] == ["allow", "allow", "deny"]
    assert "try again in" in (await decide(call())).reason
    assert (await decide(call(principal="bob"))).effect == "allow"
    assert (await decide(call(tenant="blue"))).effect == "allow"
    other_process = gate(tmp_path / "rules.yaml", store)
    assert (await other_process(call())).effect == "deny"


class Away(MemoryStore):
    async def load(self, task_id: str) -> Record:
        raise StoreError("the store is away")


async def test_a_limit_that_cannot_be_looked_up_denies(tmp_path: Path) -> None:
    text = 'match: {capability: "*"}, limit: {calls: 2, seconds: 60, per: tenant}'
    decide = gate(write(tmp_path / "rules.yaml", rule("all", 1, "allow", text)), Away())
    ruling = await decide(call())
    assert (ruling.effect, "cannot be looked up" in ruling.reason) == ("deny", True)


async def test_a_directory_has_rules_for_everybody_and_for_each_agent(tmp_path: Path) -> None:
    write(tmp_path / "_global.yaml", rule("purge", 10, "deny", "match: {capability: purge}"))
    write(tmp_path / "swe.yaml", rule("all", 20, "allow"))
    write(tmp_path / "team%2Fqa.yml", rule("all", 20, "allow", "match: {capability: test}"))
    (tmp_path / ".hidden.yaml.swp").write_text("not rules")
    decide = gate(tmp_path)
    assert (await decide(call("search"))).effect == "allow"
    assert (await decide(call("purge"))).rule == "purge"
    assert (await decide(call("test", agent_id="team/qa"))).effect == "allow"
    assert (await decide(call("search", agent_id="team/qa"))).effect == "deny"
    assert (await decide(call("search", agent_id="other"))).effect == "deny"
    assert (await decide(call("search", agent_id="_global"))).effect == "deny"


async def test_rules_of_two_agents_with_one_name_do_not_share_a_limit(tmp_path: Path) -> None:
    text = 'match: {capability: "*"}, limit: {calls: 1, seconds: 60, per: tenant}'
    for agent in ("swe", "qa"):
        write(tmp_path / f"{agent}.yaml", rule("all", 1, "allow", text))
    decide = gate(tmp_path)
    assert (await decide(call())).effect == "allow"
    assert (await decide(call(agent_id="qa"))).effect == "allow"
    assert (await decide(call())).effect == "deny"


def directory(tmp_path: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


ALL = HEAD + rule("all", 1, "allow")
BAD: Sequence[tuple[str, Mapping[str, str], str]] = [
    ("no file at all", {}, "holds no rules"),
    ("a foreign file", {"notes.txt": "x", "swe.yaml": ALL}, "is no rule file"),
    ("two files for an agent", {"swe.yaml": ALL, "swe.yml": ALL}, "same agent"),
    ("two spellings of an agent", {"swe.yaml": ALL, "s%77e.yml": ALL}, "same agent"),
    ("a name that is no text", {"%ff.yaml": ALL}, "not UTF-8"),
    (
        "one name in two files",
        {"_global.yaml": ALL, "swe.yaml": HEAD + rule("all", 2, "deny")},
        "rename one",
    ),
    (
        "one priority in two files",
        {"_global.yaml": ALL, "swe.yaml": HEAD + rule("some", 1, "deny")},
        "has the priority 1",
    ),
    ("a role", {"swe.yaml": HEAD + rule("r", 1, "deny", "match: {role: x}")}, "asks for role"),
    (
        "a source",
        {"swe.yaml": HEAD + rule("r", 1, "deny", "match: {capability: x}, when: {has_read: web}")},
        "asks for has_read",
    ),
    ("text that does not parse", {"swe.yaml": "rules: ["}, "line"),
    ("an alias", {"swe.yaml": "a: &a 1\nb: *a\n"}, "anchor"),
    ("a file that is too large", {"swe.yaml": "#" * (MAX_BYTES + 1)}, "split"),
]


@pytest.mark.parametrize(("files", "said"), [x[1:] for x in BAD], ids=[x[0] for x in BAD])
def test_a_policy_is_refused_for(tmp_path: Path, files: Mapping[str, str], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        read(directory(tmp_path, files))


def test_a_policy_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for name in ("none.yaml", "none"):
        with pytest.raises(PolicyError, match=f"{name}': cannot be read .No such file"):
            gate(tmp_path / name)


async def test_a_reload_takes_the_new_policy_as_a_whole_or_not_at_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "_global.yaml", rule("all", 1, "allow"))
    decide = gate(tmp_path)
    write(tmp_path / "_global.yaml", rule("none", 1, "deny"))
    (tmp_path / "swe.yaml").write_text("rules: [")
    assert decide.policy.reload() is False
    assert "the earlier policy stays" in caplog.text
    assert "swe.yaml" in decide.policy.problem
    assert (await decide(call())).rule == "all"
    (tmp_path / "swe.yaml").unlink()
    assert decide.policy.reload() is True
    assert decide.policy.problem == ""
    assert (await decide(call())).rule == "none"


async def test_a_policy_that_is_removed_stays_in_force(tmp_path: Path) -> None:
    path = write(tmp_path / "rules.yaml", rule("all", 1, "allow"))
    decide = gate(path)
    path.unlink()
    assert decide.policy.reload() is False
    assert (await decide(call())).effect == "allow"


def test_a_clash_of_two_files_names_the_file(tmp_path: Path) -> None:
    rule = (
        "version: 1\nrules:\n  - {name: g, priority: %d, effect: allow, match: {capability: x}}\n"
    )
    (tmp_path / "_global.yaml").write_text(rule % 1)
    (tmp_path / "team%2Fswe.yaml").write_text(rule % 2)
    with pytest.raises(PolicyError, match=r"team%2Fswe\.yaml.*line 3: _global has a rule g"):
        read(tmp_path)
