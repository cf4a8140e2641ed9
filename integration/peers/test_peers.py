"""The peers themselves: they start, answer, show what they received, and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import zlib
from pathlib import Path

import pytest

from .aimock import Aimock
from .bomb import MIB, bomb
from .control import ask
from .exchange import WELL
from .faults import FAULTS
from .faulty import FaultyServer
from .llama import LlamaServer
from .node import PeerError, install, installed, node
from .wires import WIRES, Wire

STREAMED = [pytest.param(wire, id=wire.name) for wire in WIRES]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


class TestNode:
    def test_what_is_installed_is_there_whole(self) -> None:
        folder = installed("aimock") / "node_modules" / "@copilotkit" / "aimock"
        assert json.loads((folder / "package.json").read_text())["version"] == "1.43.0"

    def test_node_runs(self) -> None:
        said = subprocess.run([node(), "-p", "6 * 7"], capture_output=True, check=True, timeout=60)
        assert said.stdout == b"42\n"

    def test_an_unknown_part_is_refused(self) -> None:
        with pytest.raises(PeerError, match="is no part"):
            installed("nothing")

    def test_what_npm_cannot_install_is_told_and_leaves_nothing(self, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.mkdir()
        (source / "package.json").write_text('{"dependencies": {"not-in-the-lock": "1.0.0"}}')
        (source / "package-lock.json").write_text('{"lockfileVersion": 3, "packages": {}}')
        shelf = tmp_path / "shelf"
        shelf.mkdir()
        with pytest.raises(PeerError, match="npm could not install source"):
            install(source, shelf / "part")
        assert list(shelf.iterdir()) == []

    @pytest.mark.parametrize("part", ["aimock", "copilot"])
    def test_a_lock_names_no_registry(self, part: str) -> None:
        lock = (Path(__file__).parent / "node" / part / "package-lock.json").read_text()
        assert "integrity" in lock
        assert "http" not in lock


class TestAimock:
    def test_a_script_is_answered_in_order_and_then_refused(self, aimock: Aimock) -> None:
        aimock.script({"content": "one"}, {"content": "two"})
        body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}
        first = ask("POST", f"{aimock.url}/v1/messages", body)
        assert first["content"] == [{"type": "text", "text": "one"}]
        second = ask("POST", f"{aimock.url}/v1/chat/completions", body)
        assert second["choices"][0]["message"]["content"] == "two"
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask("POST", f"{aimock.url}/v1/messages", body)
        refused.value.close()
        assert [received.status for received in aimock.requests()] == [200, 200, 503]

    def test_requests_are_kept_until_the_next_fixtures(self, aimock: Aimock) -> None:
        aimock.script({"content": "one"})
        body = {"model": "m", "instructions": "Be brief.", "input": "Why?"}
        ask("POST", f"{aimock.url}/v1/responses", body, {"Authorization": "Bearer key"})
        (received,) = aimock.requests()
        assert received.path == "/v1/responses"
        assert received.headers["authorization"] == "[REDACTED]"
        assert [message["content"] for message in received.body["messages"]] == [
            "Be brief.",
            "Why?",
        ]
        aimock.load(())
        assert aimock.requests() == []

    def test_a_fixture_that_is_not_valid_is_refused(self, aimock: Aimock) -> None:
        with pytest.raises(urllib.error.HTTPError, match="400") as refused:
            aimock.load([{"match": {}, "response": {"content": 3}}])
        refused.value.close()

    def test_it_ends_with_its_block(self) -> None:
        with Aimock() as peer:
            pid = peer.pid
            assert not gone(pid)
        assert gone(pid)

    def test_a_flag_it_does_not_know_says_what_is_wrong(self) -> None:
        with pytest.raises(PeerError, match="no-such-flag"), Aimock((), "--no-such-flag"):
            pass

    def test_it_ends_when_whoever_started_it_is_killed(self) -> None:
        code = (
            "import sys; from integration.peers.aimock import Aimock\n"
            "with Aimock() as peer: print(peer.pid, flush=True); sys.stdin.read()"
        )
        starter = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with starter:
            assert starter.stdout is not None
            pid = int(starter.stdout.readline())
            starter.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 10
        while not gone(pid):
            assert time.monotonic() < deadline, f"process {pid} is still there"
            time.sleep(0.02)


class TestLlama:
    def test_it_answers_on_three_wires(self, llama: LlamaServer) -> None:
        says = [{"role": "user", "content": "Say yes."}]
        for path, body in (
            ("chat/completions", {"messages": says, "max_tokens": 4}),
            ("messages", {"messages": says, "max_tokens": 4}),
            ("responses", {"input": says, "max_output_tokens": 4}),
        ):
            url = f"{llama.url}/v1/{path}"
            asked = {"model": llama.model, "temperature": 0, **body}
            said = ask("POST", url, asked, {"x-api-key": llama.api_key})
            assert said["usage"], path
        assert llama.working() == 0

    def test_it_answers_nobody_without_the_key(self, llama: LlamaServer) -> None:
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            ask("POST", f"{llama.url}/v1/messages", {})
        refused.value.close()


def asked(server: FaultyServer, wire: Wire, stream: bool) -> socket.socket:
    """A connection on which one request was sent."""
    body = json.dumps({"model": "m", "stream": stream}).encode()
    head = f"POST /v1{wire.path} HTTP/1.1\r\nHost: peer\r\nAuthorization: Bearer sk-1\r\n"
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


def everything(connection: socket.socket) -> bytes:
    with connection, connection.makefile("rb") as stream:
        return stream.read()


class TestFaulty:
    @pytest.mark.parametrize("wire", STREAMED)
    @pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
    def test_after_the_fault_it_answers_well(self, wire: Wire, stream: bool) -> None:
        with FaultyServer("status_503", times=1) as server:
            assert everything(asked(server, wire, stream)).startswith(b"HTTP/1.1 503 ")
            said = everything(asked(server, wire, stream))
            server.wait_closed()
        assert said.startswith(b"HTTP/1.1 200 OK")
        assert said.endswith(b"0\r\n\r\n")
        assert (WELL[0] if stream else "".join(WELL)).encode() in said
        assert server.accepted == len(server.requests) == len(server.closed_at) == 2

    HOLDING = tuple(name for name, fault in FAULTS.items() if fault.holds)
    LONG = ("endless", "endless_text", "gzip_bomb")

    @pytest.mark.parametrize("fault", sorted(set(FAULTS) - {*HOLDING, *LONG}))
    def test_every_fault_ends_on_every_wire(self, fault: str) -> None:
        with FaultyServer(fault) as server:
            for wire in WIRES:
                for stream in (True, False):
                    assert everything(asked(server, wire, stream)) or fault == "closed"
            server.wait_closed()
        assert server.held == 0

    @pytest.mark.parametrize("fault", HOLDING)
    def test_it_holds_until_the_other_side_closes(self, fault: str) -> None:
        with FaultyServer(fault) as server:
            with asked(server, WIRES[0], True):
                server.wait_held()
                assert server.open == 1
            server.wait_closed()

    @pytest.mark.parametrize("fault", LONG)
    def test_a_long_answer_ends_when_the_other_side_closes(self, fault: str) -> None:
        with FaultyServer(fault) as server:
            with asked(server, WIRES[1], True) as connection:
                assert connection.recv(15) == b"HTTP/1.1 200 OK"
            server.wait_closed()

    def test_it_leaves_nothing_when_a_test_leaves_early(self) -> None:
        with FaultyServer("hang") as server:
            connection = asked(server, WIRES[0], True)
            server.wait_held()
        with connection:
            assert connection.recv(1) == b""
        assert server.open == 0

    def test_the_bomb_is_a_whole_gzip_file(self) -> None:
        inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        assert sum(len(inflate.decompress(piece)) for piece in bomb(8)) == 8 * MIB
        assert inflate.eof

    def test_what_asks_for_no_answer_of_a_model_meets_no_fault(self) -> None:
        with FaultyServer("status_503") as server:
            assert ask("GET", f"{server.url}/api/tags") == {}
            assert server.requests == []

    def test_an_unknown_fault_is_refused(self) -> None:
        with pytest.raises(KeyError):
            FaultyServer("nothing_like_it")
