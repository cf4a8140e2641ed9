"""The help desk's command does what customers, workers and staff expect, in real processes."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from .postgres_server import schema as schema
from .postgres_server import server as server

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interruptible")]
ROOT = Path(__file__).parents[1]
PATIENCE = 60.0
AGENT = "integration.helpdesk_agent:Clerk"


class Command:
    """The command on one database, and the processes of it that are running."""

    def __init__(self, server: str, schema: str) -> None:
        self.server, self.schema = server, schema
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the command."""
        desk = [sys.executable, "-m", "integration.products.helpdesk"]
        process = subprocess.Popen(
            [*desk, *words, "--schema", self.schema],
            env={**os.environ, "PYTHONPATH": str(ROOT), "DATABASE_URL": self.server},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, *words: str, status: int = 0) -> str:
        """Run the command; return what it wrote."""
        process = self.start(*words)
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == status, said
        return said

    def worker(self, *words: str) -> subprocess.Popen[str]:
        """Start a worker; return when it is on duty."""
        process = self.start("work", "--agent", AGENT, "--lease", "1", *words)
        self.until(process, "on duty")
        return process

    def until(self, process: subprocess.Popen[str], word: str) -> list[str]:
        """Read lines of a process until one has this word in it; return them all."""
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if word in line:
                return lines
        raise AssertionError(f"{word!r} never came: {lines}")

    def work(self) -> str:
        """Have a worker do all that is to be done."""
        return self.run("work", "--agent", AGENT, "--lease", "1", "--until-quiet")

    def wait_for(self, number: int, state: str) -> None:
        """Wait until a ticket has a state."""
        end = time.monotonic() + PATIENCE
        while state not in (said := self.run("show", str(number)).splitlines()[0]):
            assert time.monotonic() < end, f"ticket {number} never is {state!r}: {said}"

    def paid(self) -> list[int]:
        """The cents of every refund."""
        table = sql.Identifier(self.schema, "desk_refunds")
        with psycopg.connect(self.server) as connection:
            rows = connection.execute(sql.SQL("SELECT cents FROM {}").format(table)).fetchall()
        return [cents for (cents,) in rows]


@pytest.fixture
def command(server: str, schema: str) -> Iterator[Command]:
    """The command on a new desk with two orders of Ann."""
    command = Command(server, schema)
    try:
        command.run("order", "7", "ann", "40.00")
        command.run("order", "8", "ann", "3.00")
        yield command
    finally:
        for process in command.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def test_a_ticket_from_the_first_text_to_an_approved_refund(command: Command) -> None:
    assert command.run("open", "ann", "refund 7 500") == "ticket 1 is queued\n"
    command.run("remember", "ann", "likes tea")
    assert command.run("notes", "ann") == "- likes tea\n"
    said = command.work()
    assert "ticket 1: asks for approval: ann gets 5.00 back of order 7" in said
    assert re.search(r"1 +asks for approval +ann +refund 7 500", command.run("list"))
    assert command.run("approve", "1", "--by", "eva") == (
        "approved: ann gets 5.00 back of order 7\n"
    )
    command.work()
    shown = command.run("show", "1").splitlines()
    assert shown[0] == "ticket 1 of ann: answered"
    assert "  approved by eva" in shown
    assert "  paid back: 5.00 of order 7" in shown
    assert shown[-1] == "5.00 of order 7 is paid back"


@pytest.mark.parametrize(
    "sign", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.torture)]
)
@pytest.mark.torture
def test_a_worker_that_is_told_to_stop_leaves_its_ticket_to_the_next_one(
    command: Command, sign: signal.Signals
) -> None:
    command.run("open", "ann", "compare 7 8 18")
    worker = command.worker()
    command.until(worker, "ticket 1: order:")
    worker.send_signal(sign)
    said, _ = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 128 + sign, said
    assert "off duty; every ticket goes on at the next worker" in said
    assert command.run("show", "1").startswith("ticket 1 of ann: in work")
    command.work()
    shown = command.run("show", "1")
    assert shown.startswith("ticket 1 of ann: answered")
    assert shown.count("  order: ") == 18, "a lookup was repeated or lost"


@pytest.mark.torture
def test_a_worker_takes_over_from_one_that_is_killed(command: Command) -> None:
    first = command.worker("--slots", "1")
    command.run("open", "ann", "compare 7 8 18")
    command.until(first, "ticket 1: order:")
    first.kill()
    second = command.worker("--slots", "1")
    command.wait_for(1, "answered")
    shown = command.run("show", "1")
    assert shown.count("  taken up") == 2
    assert shown.count("  order: ") == 18
    second.terminate()
    assert second.wait(PATIENCE) == 128 + signal.SIGTERM


def killed_at_a_refund(command: Command, seed: int) -> None:
    """Kill a worker at a random time after a refund is approved; another one goes on."""
    chance = random.Random(seed)
    number = command.run("open", "ann", "refund 7 100").split()[1]
    command.work()
    before = len(command.paid())
    worker = command.worker("--slots", "1")
    command.run("approve", number, "--by", "eva")
    time.sleep(chance.uniform(0.0, 0.12))
    worker.kill()
    command.work()
    command.wait_for(int(number), "answered")
    shown = command.run("show", number)
    assert len(command.paid()) == before + 1, f"seed {seed}: {shown}"
    assert shown.count("paid back: 1.00") == 1


def test_a_worker_that_is_killed_at_a_refund_pays_it_once(command: Command) -> None:
    killed_at_a_refund(command, 1)


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_twenty_workers_that_are_killed_at_refunds_pay_each_once(command: Command) -> None:
    for seed in range(20):
        killed_at_a_refund(command, seed)


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("text", ["What did I pay for order 7?", "Please refund 3.00 of order 8."])
def test_whatever_the_local_model_does_no_money_goes_without_an_approval(
    command: Command, text: str
) -> None:
    command.run("open", "ann", text, "--steps", "6")
    state = "queued"
    for _ in range(7):
        command.run("work", "--until-quiet")
        state = command.run("show", "1").splitlines()[0].partition(": ")[2]
        if state in ("answered", "failed"):
            break
        if state == "asks for approval":
            command.run("deny", "1", "--by", "eva", "--why", "answer with what you know")
        else:
            command.run("reply", "1", "I do not know.")
    shown = command.run("show", "1")
    assert state in ("answered", "failed"), shown
    assert "taken up" in shown
    assert command.paid() == []


def test_a_mistake_ends_with_2_and_without_a_traceback(command: Command) -> None:
    shown = command.run("show", "9", status=2)
    assert "there is no ticket 9" in shown
    assert "Traceback" not in shown


def test_help_names_every_command() -> None:
    asked = [sys.executable, "-m", "integration.products.helpdesk", "--help"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0
    for word in ("open", "reply", "list", "show", "work", "approve", "deny", "withdraw", "order"):
        assert word in done.stdout
