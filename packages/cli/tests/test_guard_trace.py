"""The guard's trace is searched, verified, exported and replayed from the command line."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentic_kernel_engine import Principal
from agentic_kernel_guard import (
    AsGiven,
    CapabilityRequest,
    CapabilitySpec,
    Denied,
    Guard,
    InMemoryDriver,
    Keyring,
    Registry,
    RulePolicy,
    SafetyClass,
    SQLiteGuardStore,
    StaticRouter,
)
from agentic_kernel_guard.rules import parse

from .test_guarding import command

RULES = """version: 1
rules:
  - {name: reads, priority: 1, effect: allow, match: {safety: read}}
  - {name: small, priority: 2, effect: allow, match: {capability: "pay/*", role: clerk},
     arguments: {amount: {max: 100}}}
"""
STRICTER = RULES.replace("max: 100", "max: 10")
KEYS = f"k1:{bytes(range(32)).hex()}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a payment of 50, one of 500 that was denied, and a hostile name."""

    async def used() -> None:
        store = SQLiteGuardStore(tmp_path / "guard.db")
        specs = [
            CapabilitySpec("pay/send", "send money", "send", safety=SafetyClass.WRITE),
            CapabilitySpec("pay/list", "list payments", "list", safety=SafetyClass.READ),
        ]
        driver = InMemoryDriver({"send": lambda amount: amount, "list": list})
        guard = Guard(
            Registry(specs), StaticRouter({spec.name: [driver] for spec in specs}),
            policy=RulePolicy(parse(RULES)), store=store, keys=Keyring.read(KEYS),
            resolver=AsGiven(),
        )  # fmt: skip
        ann = Principal("ann", "acme", roles=frozenset({"clerk"}))
        eve = Principal("eve\\", "acme")
        for who, name, arguments in (
            (ann, "pay/send", {"amount": 50}),
            (ann, "pay/send", {"amount": 500}),
            (eve, "pay/list", {}),
        ):
            try:
                asked = CapabilityRequest(name, arguments)
                token = await guard.grant_capability(asked, who, "as the customer asked")
            except Denied:
                continue
            await guard.invoke(token, who, arguments)
        await store.close()

    asyncio.run(used())
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "stricter.yaml").write_text(STRICTER)
    (tmp_path / "keys").write_text(KEYS)
    (tmp_path / "keys").chmod(0o600)
    return tmp_path


def test_the_trace_is_searched(folder: Path) -> None:
    store = ("--store", str(folder / "guard.db"))
    code, said = command("guard", "trace", *store)
    assert code == 0
    assert len(said.splitlines()) == 7
    code, said = command(
        "--json", "guard", "trace", *store, "--kind", "denied", "--capability", "pay/*"
    )
    (entry,) = map(json.loads, said.splitlines())
    assert (entry["entry"]["principal"], entry["entry"]["arguments"]) == ("ann", {"amount": 500})
    code, said = command("guard", "trace", *store, "--principal", "eve*", "--limit", "2")
    assert "eve\\\\" in said
    assert "raise --limit 2" in said
    assert command("guard", "trace", *store, "--until", "2020-01-01")[1] == ""
    code, said = command("guard", "trace", "--store", str(folder / "none.db"))
    assert (code, "there is no such file" in said) == (1, True)
    assert not (folder / "none.db").exists()


@pytest.mark.parametrize("scheme", ["POSTGRESQL", "mysql"])
def test_a_url_that_cannot_be_used_is_not_repeated(scheme: str, folder: Path) -> None:
    code, said = command("guard", "trace", "--store", f"{scheme}://u:s3cr3t@127.0.0.1:1/x")
    assert (code, "s3cr3t" in said) == (1, False)


def test_a_cut_and_a_change_are_found(folder: Path) -> None:
    place = folder / "guard.db"
    store, keys = ("--store", str(place)), ("--keys", str(folder / "keys"))
    code, printed = command("guard", "head", *store, *keys)
    assert code == 0
    head = folder / "head.json"
    head.write_text(printed)
    against = ("--head", str(head), *keys)
    code, said = command("guard", "verify", *store, *against)
    assert (code, "7 entries, unbroken, and entry 7" in said) == (0, True)
    code, text = command("guard", "export", *store)
    torn = folder / "export.jsonl"
    torn.write_text(text[:-20])
    code, said = command("guard", "verify", "--export", str(torn))
    assert (code, "6 entries" in said, "unfinished" in said) == (0, True, True)
    with closing(sqlite3.connect(place)) as db, db:
        db.execute("DELETE FROM guard_chain WHERE seq = 7")
    assert command("guard", "verify", *store)[0] == 0
    code, said = command("guard", "verify", *store, *against)
    assert (code, "cut off" in said) == (1, True)
    with closing(sqlite3.connect(place)) as db, db:
        db.execute("UPDATE guard_chain SET body = replace(body, '50', '51') WHERE seq = 2")
    code, said = command("guard", "verify", *store)
    assert (code, "entry 2 was changed" in said) == (1, True)
    (folder / "keys").chmod(0o644)
    code, said = command("guard", "head", *store, *keys)
    assert (code, "chmod 600" in said) == (1, True)
    assert bytes(range(32)).hex() not in said


def test_what_is_over_is_forgotten_and_the_trace_stays(folder: Path) -> None:
    store = ("--store", str(folder / "guard.db"))

    def left() -> tuple[int, int]:
        with closing(sqlite3.connect(folder / "guard.db")) as database, database:
            tables = ("guard_kept", "guard_actions")
            kept, actions = (
                database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables
            )
            database.execute("UPDATE guard_kept SET until = 1 WHERE owner = 'ann'")
            database.execute("UPDATE guard_actions SET at = at - 86400000")
            return kept, actions

    assert left() == (2, 2)
    assert command("guard", "prune", *store) == (0, "what is over is forgotten; the trace stays\n")
    assert left() == (1, 2)
    code, said = command("guard", "prune", *store, "--older-than", "yesterday")
    assert (code, "--older-than" in said) == (2, True)
    assert command("guard", "prune", *store, "--older-than", "12h")[0] == 0
    assert left() == (1, 0)
    assert command("guard", "verify", *store)[0] == 0


def test_other_rules_are_asked_about_what_was_recorded(folder: Path) -> None:
    store = ("--store", str(folder / "guard.db"))
    same = command("guard", "policy", "diff", str(folder / "rules.yaml"), *store)
    assert same == (0, "0 of 3 requests are decided otherwise; of 0 an argument is redacted\n")
    code, said = command("--json", "guard", "policy", "diff", str(folder / "stricter.yaml"), *store)
    (found,) = map(json.loads, said.splitlines())
    assert (code, found["before"], found["now"], found["rule"]) == (1, "allow", "deny", "")


def test_the_deciding_rule_and_the_near_ones_are_named(folder: Path) -> None:
    asked = ("guard", "policy", "explain", str(folder / "rules.yaml"), "--capability", "pay/send")
    code, said = command(*asked, "--role", "clerk", "--argument", "amount=500")
    assert code == 0
    assert said.startswith("deny: no rule matches")
    assert "small would say allow, but for arguments.amount.max" in said
    code, said = command("--json", *asked, "--role", "clerk", "--argument", "amount=5")
    assert json.loads(said)["rule"] == "small"
    code, said = command(*asked, "--argument", "amount")
    assert (code, "NAME=JSON" in said) == (1, True)
