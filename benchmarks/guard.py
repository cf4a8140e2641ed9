"""The guard: a grant, a call, a decision, a frame and a search, and the trace of two processes."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from beside import Beside
from figure import Figure, interleaved
from peers import weaver
from peers.catalog import Contestant
from peers.environment import Absent, interpreter, told

from agentic_kernel_engine import Principal
from agentic_kernel_guard import (
    AsGiven,
    CapabilityRequest,
    CapabilitySpec,
    DefaultPolicy,
    Firewall,
    Guard,
    InMemoryDriver,
    Key,
    Keyring,
    MemoryGuardStore,
    RawResult,
    Registry,
    SafetyClass,
    StaticRouter,
)
from agentic_kernel_guard.rules import Asked, RuleSet, parse
from agentic_kernel_guard.tokens import opened

KEY = bytes(range(32))
ANN = Principal("ann", "acme")
RULES, NAMED = 1_000, 20
SPECS = 10_000
ROWS, FIELDS, CHARS = 1_000, 10, 20
TRACES, PROCESSES = 10_000, 2
MANY = 2_000
"""Grants, or calls, of one round."""
ROUNDS = 5


WEAVER = Contestant("weaver-kernel", "weaver", "", requires=weaver.REQUIRES)
BESIDE = {
    "grant": "a grant with its token",
    "verify": "a token verified",
    "decision": f"a decision against {RULES:,} rules",
    "frame": f"the summary of {ROWS:,} rows",
    "search": f"a search over {SPECS:,} specs",
    "invoke": "an invocation in memory",
}


def measure() -> list[Figure | Beside]:
    """The figures of the guard, and those beside weaver-kernel."""
    figures = [*asyncio.run(_calls()), _decision(), _frame(), _search(), _traces()]
    return [*figures, *_beside()]


def _beside() -> list[Beside]:
    """Ours between two rounds of theirs, so that a busy moment falls on both."""
    found: list[dict[str, float]] = []
    absent = ""
    try:
        python = interpreter(WEAVER)
        found.append(json.loads(told(python, "-m", "peers.weaver")))
        ours = asyncio.run(_ours())
        found.append(json.loads(told(python, "-m", "peers.weaver")))
    except Absent as reason:
        ours, absent = asyncio.run(_ours()), str(reason)
    return [
        Beside(
            f"processor time of {said}", ours[name],
            min((each[name] for each in found), default=None),
            f"weaver-kernel {WEAVER.version}", "µs", absent,
        )
        for name, said in BESIDE.items()
    ]  # fmt: skip


async def _ours() -> dict[str, float]:
    """Ours in the same way as `peers.weaver` measures."""
    granting, calling = [], []
    for _ in range(weaver.ROUNDS):
        world = World()
        asked = [CapabilityRequest("crm/find", {"id": n}) for n in range(weaver.MANY)]
        began = time.process_time()
        tokens = [await world.guard.grant_capability(each, ANN) for each in asked]
        granting.append(time.process_time() - began)
        began = time.process_time()
        for number, token in enumerate(tokens):
            await world.guard.invoke(token, ANN, {"id": number})
        calling.append(time.process_time() - began)
    now = int(time.time() * 1_000)
    rules, request = _rules()
    raw, firewall, registry = RawResult(_rows(), "driver", "source"), Firewall(), _registry()
    return {
        "grant": min(granting) / weaver.MANY * 1e6,
        "verify": weaver.best(lambda: opened(tokens[0], world.keys, now), weaver.MANY),
        "decision": weaver.best(lambda: rules.decide(request), weaver.MANY),
        "frame": weaver.best(lambda: firewall.frame(raw, mode="summary"), 5),
        "search": weaver.best(lambda: registry.search("find the customers of kind 77"), 5),
        "invoke": min(calling) / weaver.MANY * 1e6,
    }


class World:
    """A guard in memory over one operation."""

    def __init__(self) -> None:
        spec = CapabilitySpec("crm/find", "find", "find", safety=SafetyClass.READ)
        driver = InMemoryDriver({"find": self.find})
        self.keys = Keyring([Key("k1", KEY)])
        self.guard = Guard(
            Registry([spec]), StaticRouter({spec.name: [driver]}), policy=DefaultPolicy(),
            store=MemoryGuardStore(), keys=self.keys, resolver=AsGiven(),
        )  # fmt: skip

    async def find(self, id: int) -> dict[str, int]:
        """The operation."""
        return {"id": id}


async def _calls() -> list[Figure]:
    granting = verifying = calling = bare = signing = float("inf")
    for _ in range(ROUNDS):
        world = World()
        asked = [CapabilityRequest("crm/find", {"id": number}) for number in range(MANY)]
        began = time.perf_counter()
        tokens = [await world.guard.grant_capability(each, ANN) for each in asked]
        granting = min(granting, time.perf_counter() - began)
        now = int(time.time() * 1_000)
        began = time.perf_counter()
        for token in tokens:
            opened(token, world.keys, now)
        verifying = min(verifying, time.perf_counter() - began)
        began = time.perf_counter()
        for token, each in zip(tokens, asked, strict=True):
            assert each.arguments is not None
            await world.guard.invoke(token, ANN, each.arguments)
        calling = min(calling, time.perf_counter() - began)
        began = time.perf_counter()
        for number in range(MANY):
            await world.find(id=number)
        bare = min(bare, time.perf_counter() - began)
        body = json.dumps({"claims": "x" * 400}).encode()
        began = time.perf_counter()
        for _ in tokens:
            hmac.digest(KEY, body, hashlib.sha256)
        signing = min(signing, time.perf_counter() - began)
    micro, mac = 1e6 / MANY, "an HMAC over 400 bytes"
    return [
        Figure(
            name="a grant with its token, in memory", ours=granting * micro, unit="µs",
            limit=signing * micro, limit_is=mac, bar=100,
        ),
        Figure(
            name="a token verified", ours=verifying * micro, unit="µs", limit=signing * micro,
            limit_is=mac, bar=40,
        ),
        Figure(
            name="what an invocation in memory adds", ours=(calling - bare) * micro, unit="µs",
            limit=bare * micro, limit_is="the bare call", bar=150,
        ),
    ]  # fmt: skip


def _rules() -> tuple[RuleSet, Asked]:
    other = "\n".join(
        f"- {{name: r{n}, priority: {n}, effect: allow, match: {{capability: crm/other{n}}}}}"
        for n in range(RULES - NAMED)
    )
    named = "\n".join(
        f"- {{name: n{n}, priority: {RULES + n}, effect: allow, match: {{capability: crm/find}}, "
        f"arguments: {{amount: {{max: {n}}}}}}}"
        for n in range(NAMED)
    )
    rules = parse(f"version: 1\nrules:\n{other}\n{named}\n")
    asked = Asked("crm/find", {"amount": NAMED - 1}, datetime.now(UTC))
    assert rules.decide(asked).rule == f"n{NAMED - 1}"
    return rules, asked


def _decision() -> Figure:
    rules, asked = _rules()

    def compared() -> None:
        for most in range(NAMED):
            if asked.arguments["amount"] <= most:
                return

    best = interleaved(
        {"ours": lambda: rules.decide(asked), "limit": compared}, number=2_000, rounds=9
    )
    return Figure(
        name=f"a decision against {RULES:,} rules of which {NAMED} name the capability",
        ours=best["ours"] * 1e6, unit="µs", limit=best["limit"] * 1e6,
        limit_is=f"{NAMED} comparisons", bar=150,
    )  # fmt: skip


def _rows() -> list[dict[str, str]]:
    return [
        {f"field{field}": f"{row:05}-{field:02}".ljust(CHARS, "x") for field in range(FIELDS)}
        for row in range(ROWS)
    ]


def _frame() -> Figure:
    rows = _rows()
    raw, firewall = RawResult(rows, "driver", "source"), Firewall()
    work: dict[str, Any] = {
        "ours": lambda: firewall.frame(raw, mode="summary"), "limit": lambda: json.dumps(rows)
    }  # fmt: skip
    best = interleaved(work, number=5, rounds=9)
    return Figure(
        name=f"the summary of {ROWS:,} rows of {FIELDS} fields of {CHARS} characters",
        ours=best["ours"] * 1e3, unit="ms", limit=best["limit"] * 1e3,
        limit_is="the rows as JSON", bar=10,
    )  # fmt: skip


def _registry() -> Registry:
    return Registry(
        CapabilitySpec(f"crm/find{n}", f"find customers of kind {n} in the shop", "find")
        for n in range(SPECS)
    )


def _search() -> Figure:
    registry = _registry()
    texts = [spec.description for spec in registry]
    work: dict[str, Any] = {
        "ours": lambda: registry.search("find the customers of kind 77"),
        "limit": lambda: sum("customers" in text for text in texts),
    }
    best = interleaved(work, number=5, rounds=9)
    return Figure(
        name=f"a search over {SPECS:,} specs of which all share words with the goal",
        ours=best["ours"] * 1e3, unit="ms", limit=best["limit"] * 1e3,
        limit_is="one word looked for in each description", bar=5,
    )  # fmt: skip


_WRITER = """
import asyncio, sys
from agentic_kernel_guard.stores import SQLiteGuardStore
async def main():
    store = SQLiteGuardStore(sys.argv[1])
    await store.append('{"action":"first"}')
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[2])):
        await store.append('{"action":"a%s-%d","text":"%s"}' % (sys.argv[3], number, "x" * 300))
    await store.close()
asyncio.run(main())
"""


def _traces() -> Figure:
    with TemporaryDirectory() as folder:
        bare = sqlite3.connect(Path(folder, "bare.db"), isolation_level=None)
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = FULL")
        bare.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
        began = time.perf_counter()
        for _ in range(TRACES // 5):
            bare.execute("INSERT INTO t (body) VALUES (?)", ("x" * 330,))
        limit = TRACES // 5 / (time.perf_counter() - began)
        bare.close()
        place, share = str(Path(folder, "guard.db")), TRACES // PROCESSES
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", _WRITER, place, str(share), str(number)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for number in range(PROCESSES)
        ]  # fmt: skip
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        began = time.perf_counter()
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for writer in writers:
            writer.communicate()
        ours = TRACES / (time.perf_counter() - began)
        assert not any(writer.returncode for writer in writers)
    return Figure(
        name=f"{TRACES:,} traces by {PROCESSES} processes on one SQLite file", ours=ours / limit,
        unit="×", limit=1, limit_is=f"one process, one INSERT at a time, {limit:,.0f}/s", bar=0.5,
        better="higher",
    )  # fmt: skip
