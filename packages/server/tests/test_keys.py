"""API keys: hashed at rest, found by their text, gone at once when they are revoked."""

from __future__ import annotations

import json
import multiprocessing
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.requests import HTTPConnection

from agentic_kernel import InvalidValue
from agentic_kernel_server import Refused
from agentic_kernel_server.security import (
    KeyCredentials,
    KeyFile,
    KeyFileError,
    Keys,
    LoopbackCredentials,
    is_loopback,
)

NOW = datetime(2026, 3, 2, 10, 30, tzinfo=UTC)


def connection(*headers: tuple[str, str]) -> HTTPConnection:
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return HTTPConnection({"type": "http", "headers": raw, "path": "/", "query_string": b""})


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


def test_a_key_is_found_by_its_text_and_its_secret_is_not_in_the_file(file: KeyFile) -> None:
    text, made = file.make("ann", ["client", "approver"], tenant="red", at=NOW)
    found = Keys(file.path).find(text, NOW)
    assert found == made
    assert (made.principal, made.tenant) == ("ann", "red")
    assert made.scopes == frozenset({"client", "approver"})
    secret = text.split("_", 2)[2]
    assert secret not in file.path.read_text()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_a_changed_truncated_or_foreign_key_is_not_found(file: KeyFile) -> None:
    text, _ = file.make("ann", ["client"])
    other, _ = KeyFile(file.path.with_name("other.json")).make("ann", ["client"])
    keys = Keys(file.path)
    mixed = f"ak_{text.split('_')[1]}_{other.split('_', 2)[2]}"
    for wrong in (
        "",
        text[:-1],
        text + "A",
        text.upper(),
        text.swapcase(),
        f" {text}",
        f"{text}\n",
        other,
        f"{mixed}_{other.rpartition('_')[2]}",
        f"{text}é",
    ):
        assert keys.find(wrong, NOW) is None, wrong
    assert keys.find(text, NOW) is not None


def test_a_revoked_key_fails_at_once_in_a_server_that_runs(file: KeyFile) -> None:
    text, made = file.make("ann", ["client"])
    kept, _ = file.make("bob", ["client"])
    keys = Keys(file.path)
    assert keys.find(text, NOW)
    assert file.revoke(made.id, at=NOW).revoked_at == NOW
    assert keys.find(text, NOW) is None
    assert not keys.current(made, NOW)
    assert keys.find(kept, NOW)
    later = NOW + timedelta(days=1)
    assert file.revoke(made.id, at=later).revoked_at == NOW


def test_an_expired_key_is_not_found(file: KeyFile) -> None:
    text, made = file.make("ann", ["client"], expires_at=NOW)
    keys = Keys(file.path)
    assert keys.find(text, NOW - timedelta(seconds=1)) == made
    assert keys.find(text, NOW) is None


def test_a_damaged_file_leaves_the_earlier_keys_in_force(
    file: KeyFile, caplog: pytest.LogCaptureFixture
) -> None:
    text, _ = file.make("ann", ["client"])
    keys = Keys(file.path)
    good = file.path.read_bytes()
    replace(file.path, b"{}")
    assert keys.find(text, NOW)
    assert "is damaged" in keys.problem
    keys.find(text, NOW)
    assert sum("the earlier keys stay" in each.message for each in caplog.records) == 1
    replace(file.path, good)
    assert keys.find(text, NOW)
    assert keys.problem == ""


def replace(path: Path, text: bytes) -> None:
    new = path.with_name("new")
    new.write_bytes(text)
    new.chmod(0o600)
    new.replace(path)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("hash", "0" * 63, "malformed"),
        ("id", "../../etc", "malformed"),
        ("scopes", ["root"], "unknown scope"),
        ("scopes", [], "an unknown scope"),
        ("principal", "", "without a principal"),
        ("principal", "a\nb", "invisible"),
        ("created_at", "2026-01-01T00:00:00", "naive"),
        ("tenant", None, "damaged"),
        ("more", 1, "damaged"),
    ],
)
def test_a_file_with_a_faulty_key_is_refused_as_a_whole(
    file: KeyFile, field: str, value: object, said: str
) -> None:
    file.make("ann", ["client"])
    content = json.loads(file.path.read_text())
    content["keys"][0][field] = value
    replace(file.path, json.dumps(content).encode())
    with pytest.raises(KeyFileError, match=said):
        Keys(file.path)


def test_a_file_of_a_newer_release_or_with_a_key_twice_is_refused(file: KeyFile) -> None:
    file.make("ann", ["client"])
    content = json.loads(file.path.read_text())
    replace(file.path, json.dumps({**content, "version": 2}).encode())
    with pytest.raises(KeyFileError, match="version 2"):
        Keys(file.path)
    replace(file.path, json.dumps({**content, "keys": content["keys"] * 2}).encode())
    with pytest.raises(KeyFileError, match="twice"):
        Keys(file.path)


def test_a_file_that_others_can_write_is_refused(file: KeyFile) -> None:
    file.make("ann", ["client"])
    file.path.chmod(0o620)
    with pytest.raises(KeyFileError, match="chmod 600"):
        Keys(file.path)


def test_a_missing_file_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="agentic-kernel keys make"):
        Keys(tmp_path / "none.json")
    with pytest.raises(KeyFileError, match="cannot be read"):
        KeyFile(tmp_path / "none.json").revoke("0" * 12)


@pytest.mark.parametrize(
    ("principal", "scopes", "path"),
    [
        ("", ["client"], "principal"),
        ("a\tb", ["client"], "name"),
        ("ann", [], "scopes"),
        ("ann", ["client", "root"], "scopes"),
    ],
)
def test_a_key_without_a_principal_or_with_an_unknown_scope_is_not_made(
    file: KeyFile, principal: str, scopes: list[str], path: str
) -> None:
    with pytest.raises(InvalidValue, match=path):
        file.make(principal, scopes)
    assert not file.path.exists()


def test_an_unknown_id_is_not_revoked(file: KeyFile) -> None:
    file.make("ann", ["client"])
    with pytest.raises(InvalidValue, match="is no key"):
        file.revoke("0" * 12)


def make_some(path: str, name: str) -> None:
    for _ in range(4):
        KeyFile(path).make(name, ["client"])


def test_two_processes_that_make_keys_lose_none(file: KeyFile) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes = [
        spawn.Process(target=make_some, args=(str(file.path), name)) for name in ("ann", "bob")
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    made = [key.principal for key in file.read()]
    assert (made.count("ann"), made.count("bob")) == (4, 4)


async def test_the_credential_alone_decides_who_calls(file: KeyFile) -> None:
    text, _ = file.make("ann", ["agent"], tenant="red")
    authenticate = KeyCredentials(Keys(file.path))
    caller = await authenticate(
        connection(
            ("Authorization", f"Bearer {text}"),
            ("X-Tenant", "blue"),
            ("X-Principal", "root"),
            ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        )
    )
    assert (caller.name, caller.tenant) == ("ann", "red")
    assert caller.scopes == frozenset({"agent"})
    assert caller.trace == "4bf92f3577b34da6a3ce929d0e0e4736"


async def test_every_bad_credential_gets_the_same_answer(file: KeyFile) -> None:
    text, made = file.make("ann", ["agent"])
    gone, _ = file.make("bob", ["agent"], expires_at=NOW)
    file.revoke(file.make("eve", ["agent"])[1].id)
    authenticate = KeyCredentials(Keys(file.path))
    answers = set()
    bearer = f"Bearer {text}"
    for headers in (
        [("Authorization", f"Bearer {gone}")],
        [("Authorization", f"Bearer ak_{made.id}_{'A' * 43}")],
        [("Authorization", f"Basic {text}")],
        [("Authorization", text)],
        [("Authorization", "Bearer ")],
        [("Authorization", f"{bearer}, {bearer}")],
        [("Authorization", bearer), ("Authorization", bearer)],
        [("Authorization", "Bearer " + "x" * 100_000)],
        [("Authorization", "Bearer \xff")],
    ):
        with pytest.raises(Refused) as caught:
            await authenticate(connection(*headers))
        assert caught.value.code == "UNAUTHORIZED"
        answers.add(caught.value.message)
    assert len(answers) == 1
    assert "session" not in answers.pop()
    with pytest.raises(Refused, match="send an API key"):
        await authenticate(connection())


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
    ],
)
async def test_a_malformed_trace_counts_as_none(header: str) -> None:
    caller = await LoopbackCredentials()(
        connection(("Host", "localhost:8080"), ("traceparent", header))
    )
    assert caller.trace == ""


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:80", "127.9.9.9"]
)
async def test_a_server_without_keys_serves_the_machine_itself(host: str) -> None:
    caller = await LoopbackCredentials()(connection(("Host", host)))
    assert (caller.name, caller.tenant) == ("", "")
    caller.require("admin")
    for more in (
        [("Origin", f"http://{host}")],
        [("Referer", f"http://{host}/docs"), ("Sec-Fetch-Site", "same-origin")],
        [("Sec-Fetch-Site", "none")],
    ):
        assert await LoopbackCredentials()(connection(("Host", host), *more)) == caller


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Host", "evil.example")],
        [("Host", "localhost.evil.example")],
        [("Host", "127.0.0.1.evil.example:80")],
        [("Host", "[::2]")],
        [("Host", "0.0.0.0")],
        [("Host", "localhost"), ("Origin", "http://evil.example")],
        [("Host", "localhost"), ("Origin", "null")],
        [("Host", "localhost:1"), ("Origin", "http://localhost:2")],
        [("Host", "localhost"), ("Sec-Fetch-Site", "cross-site")],
        [("Host", "localhost"), ("Sec-Fetch-Site", "same-site")],
        [("Host", "localhost"), ("Referer", "http://evil.example/")],
        [("Host", "localhost:1"), ("Referer", "http://localhost:12/")],
    ],
)  # fmt: skip
async def test_a_page_of_another_site_cannot_use_a_server_without_keys(
    headers: list[tuple[str, str]],
) -> None:
    with pytest.raises(Refused) as caught:
        await LoopbackCredentials()(connection(*headers))
    assert caught.value.code == "FORBIDDEN"


@pytest.mark.parametrize("name", ["0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "2130706433", ""])
def test_other_addresses_are_no_loopback(name: str) -> None:
    assert not is_loopback(name)


@pytest.mark.parametrize("name", ["::ffff:127.0.0.1", "::1", "127.255.0.1", "localhost"])
def test_loopback_addresses_are_known(name: str) -> None:
    assert is_loopback(name)
