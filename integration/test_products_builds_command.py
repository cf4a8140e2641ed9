"""The build runner's command does what a user of a build runner expects, in real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interruptible")]
ROOT = Path(__file__).parents[1]
PATIENCE = 60.0


class Shop:
    """A folder with a build file, and the command on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.started: list[subprocess.Popen[str]] = []

    def says(self, text: str) -> None:
        """Write the build file."""
        (self.root / "builds.toml").write_text(text, encoding="utf-8")

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the command."""
        process = subprocess.Popen(
            [sys.executable, "-m", "integration.products.builds", *words], cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, *words: str) -> tuple[int, str]:
        """Run the command; its status and what it wrote."""
        return self.end(self.start(*words))

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """Wait for a command; its status and what it wrote."""
        said, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, said

    def build(self, *words: str) -> tuple[int, list[str]]:
        """Run ``build``; its status and the lines that it wrote, without those of progress."""
        status, said = self.run("build", *words)
        return status, [each for each in said.splitlines() if not each.startswith("making")]

    def wait_for(self, word: str) -> None:
        """Wait until a recipe wrote a word to the log."""
        end = time.monotonic() + PATIENCE
        while word not in self.log():
            assert time.monotonic() < end, f"{word!r} never came; the log has {self.log()}"
            time.sleep(0.02)

    def log(self) -> list[str]:
        """The words that recipes wrote to the log."""
        log = self.root / "log"
        return log.read_text(encoding="utf-8").split() if log.exists() else []

    def gone(self, name: str) -> bool:
        """True if the process whose id a recipe wrote to a file runs no more."""
        stat = Path(f"/proc/{(self.root / name).read_text().strip()}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    for process in shop.started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    shop.run("stop", "--all")


WAITS = """
[slow]
run = [
    "echo one >> log",
    "echo $$ > pid; echo two >> log; while [ ! -e go ]; do sleep 0.05; done",
    "echo three >> log",
]
"""
COPY = """
[copy]
inputs = ["in.txt"]
outputs = ["out.txt"]
run = ["cat in.txt > out.txt", "echo copied >> log"]
[count]
needs = ["copy"]
run = ["echo counted >> log"]
"""


@pytest.mark.torture
def test_a_target_is_made_again_only_if_something_changed(shop: Shop) -> None:
    (shop.root / "in.txt").write_text("a")
    shop.says(COPY)
    assert shop.build() == (0, ["made     copy", "made     count"])
    assert shop.build() == (0, ["fresh    copy", "fresh    count"])
    (shop.root / "in.txt").write_text("b")
    assert shop.run("status", "copy")[1] == (
        "stale    copy: its inputs, its recipe or a target it needs changed\n"
    )
    assert shop.build() == (0, ["made     copy", "made     count"])
    shop.says(COPY.replace("counted >>", "counted  >>"))
    assert shop.build() == (0, ["fresh    copy", "made     count"])
    assert shop.log() == ["copied", "counted", "copied", "counted", "counted"]


def test_outputs_come_from_the_shelf_if_they_were_made_of_the_same_things(shop: Shop) -> None:
    """An input that changes and changes back, an output that is edited, and one that is removed."""
    out = shop.root / "out.txt"
    shop.says(COPY)
    for text in ("a", "b"):
        (shop.root / "in.txt").write_text(text)
        assert shop.build("copy") == (0, ["made     copy"])
    (shop.root / "in.txt").write_text("a")
    assert shop.build("copy") == (0, ["restored copy"])
    assert out.read_text() == "a"
    out.write_text("edited")
    assert shop.run("status", "copy")[1] == "stale    copy: out.txt is missing or changed\n"
    assert shop.build("copy") == (0, ["restored copy"])
    out.unlink()
    assert shop.build("copy") == (0, ["restored copy"])
    assert out.read_text() == "a"
    for kept in (shop.root / ".builds" / "shelf").iterdir():
        kept.unlink()
    out.unlink()
    assert shop.build("copy") == (0, ["made     copy"])
    assert shop.log() == ["copied"] * 3


@pytest.mark.torture
def test_a_failure_skips_what_needs_it_and_nothing_else(shop: Shop) -> None:
    shop.says(
        '[bad]\nrun = ["echo no luck", "exit 3"]\n[after]\nneeds = ["bad"]\nrun = ["true"]\n'
        '[last]\nneeds = ["after"]\nrun = ["true"]\n[other]\nrun = ["true"]\n'
        '[liar]\noutputs = ["never"]\nrun = ["true"]\n[dead]\nrun = ["kill -9 $$"]\n'
    )
    status, said = shop.build()
    assert status == 1
    assert sorted(said) == [
        "failed   bad: line 2 ended with 3: exit 3",
        "failed   dead: line 1 was ended by signal 9: kill -9 $$",
        "failed   liar: the recipe did not make the file never",
        "made     other",
        "skipped  after: it needs bad, which failed",
        "skipped  last: it needs after, which was skipped",
    ]
    said_of_bad = shop.run("log", "bad")[1]
    assert said_of_bad == "no luck\nbuild/line_failed: line 2 ended with 3: exit 3\n"
    assert "failed   bad: line 2 ended with 3" in shop.run("status")[1]


@pytest.mark.torture
def test_as_many_targets_are_made_at_once_as_jobs_say(shop: Shop) -> None:
    """Each of two waits for the other; with one job, none of 10 sees another one."""
    shop.says(
        "".join(
            f'[{one}]\nrun = ["touch {one}; while [ ! -e {other} ]; do sleep 0.02; done"]\n'
            for one, other in ("ab", "ba")
        )
    )
    assert shop.build("-j", "2")[0] == 0
    alone = "mkdir alone || echo crowd >> log; sleep 0.01; rmdir alone; echo done >> log"
    shop.says("".join(f'[t{number}]\nrun = ["{alone}"]\n' for number in range(10)))
    assert shop.build("-j", "1")[0] == 0
    assert shop.log() == ["done"] * 10


def test_after_a_sigkill_finished_lines_are_not_run_again_and_the_cut_one_is_named(
    shop: Shop,
) -> None:
    shop.says(WAITS)
    first = shop.start("build")
    shop.wait_for("two")
    first.kill()
    first.wait()
    (shop.root / "pid").rename(shop.root / "old")
    (shop.root / "go").touch()
    status, said = shop.build()
    assert status == 0
    assert said[-2:] == [
        "unknown  slow: line 2 was cut off, so its outcome is indeterminate; it is run again",
        "made     slow: the outcome of line 2 was unknown after a crash, so it was run again",
    ]
    assert shop.log() == ["one", "two", "two", "three"]
    assert shop.gone("old")


def test_a_line_that_must_not_be_repeated_is_not(shop: Shop) -> None:
    shop.says(
        WAITS.replace('"echo $$', '{ once = "echo $$').replace('0.05; done"', '0.05; done" }')
    )
    first = shop.start("build")
    shop.wait_for("two")
    first.kill()
    first.wait()
    status, said = shop.run("resume")
    while "nothing is left" in said:  # Its lease has not ended yet.
        assert status == 1
        assert "making   slow: 1 of 3 lines done; a process has it; if that process died," in said
        status, said = shop.run("resume")
    assert status == 1
    assert "failed   slow: line 2 was cut off, so its outcome is indeterminate" in said
    assert shop.log() == ["one", "two"]
    assert shop.gone("pid")
    (shop.root / "go").touch()
    assert shop.build()[0] == 0
    assert shop.log() == ["one", "two", "one", "two", "three"]


@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGINT, "build"), (signal.SIGTERM, "resume")], ids=str
)
def test_a_signal_lets_the_line_end_and_the_build_can_go_on(
    shop: Shop, number: signal.Signals, word: str
) -> None:
    """Also if other targets wait for a job: they are not begun."""
    others = "".join(f'[z{each}]\nrun = ["echo z >> log"]\n' for each in range(3))
    shop.says(WAITS + others)
    first = shop.start("build", "-j", "1")
    shop.wait_for("two")
    first.send_signal(number)
    assert first.stdout is not None
    lines = iter(first.stdout.readline, "")
    assert next(line for line in lines if line.startswith("ending: running lines have 30 s"))
    (shop.root / "go").touch()
    status, said = shop.end(first)
    assert status == 128 + number
    assert said.endswith("stopped; `build` or `resume` goes on with the next line of each recipe\n")
    assert [each for each in shop.log() if each != "z"] == ["one", "two"]
    left = "left     slow: 2 of 3 lines done; `resume` or `build` goes on\n"
    assert left in shop.run("status")[1]
    assert shop.run(word)[0] == 0
    assert [each for each in shop.log() if each != "z"] == ["one", "two", "three"]
    assert shop.run("resume") == (0, "nothing is left to go on with\n")


@pytest.mark.torture
def test_a_line_that_outlives_the_grace_is_cut_off_and_named_later(shop: Shop) -> None:
    shop.says(WAITS)
    first = shop.start("build", "--grace", "0")
    shop.wait_for("two")
    first.send_signal(signal.SIGTERM)
    assert shop.end(first)[0] == 128 + signal.SIGTERM
    assert shop.gone("pid")
    (shop.root / "go").touch()
    status, said = shop.run("resume")
    assert status == 0
    assert "unknown  slow: line 2 was cut off" in said
    assert shop.log() == ["one", "two", "two", "three"]


def test_two_processes_make_a_target_once(shop: Shop) -> None:
    shop.says(WAITS)
    both = [shop.start("build"), shop.start("build")]
    shop.wait_for("two")
    (shop.root / "go").touch()
    for process in both:
        status, said = shop.end(process)
        assert status == 0
        assert said.splitlines()[-1] in ("made     slow", "fresh    slow")
    assert shop.log() == ["one", "two", "three"]


@pytest.mark.torture
def test_a_process_that_waits_takes_over_from_one_that_is_killed(shop: Shop) -> None:
    shop.says(WAITS)
    first = shop.start("build")
    shop.wait_for("two")
    second = shop.start("build")
    assert second.stdout is not None
    assert second.stdout.readline() == "waiting  slow: another build of it has not ended\n"
    first.kill()
    first.wait()
    (shop.root / "go").touch()
    status, said = shop.end(second)
    assert status == 0
    assert "making   slow: line 3 of 3" in said
    assert shop.log() == ["one", "two", "two", "three"]


@pytest.mark.parametrize("alive", [True, False], ids=["living", "killed"])
def test_stop_from_another_terminal_ends_the_processes(shop: Shop, alive: bool) -> None:
    """Those of a builder that was killed, too."""
    shop.says('[slow]\nrun = ["sleep 600 & echo $! > pid; echo begun >> log; wait", "echo >> on"]')
    builds = shop.start("build")
    shop.wait_for("begun")
    if not alive:
        builds.kill()
        builds.wait()
        assert not shop.gone("pid")
    assert shop.run("stop", "slow") == (0, "stopped  slow\n")
    assert shop.gone("pid")
    if alive:
        status, said = shop.end(builds)
        assert status == 1
        assert said.endswith("stopped  slow\n")
    assert not (shop.root / "on").exists()
    assert shop.run("stop", "slow") == (1, "builds: slow is not being made\n")


@pytest.mark.torture
def test_watch_shows_the_output_while_a_target_is_made(shop: Shop) -> None:
    shop.says(WAITS.replace("echo two", "echo loud; echo two"))
    assert shop.run("watch") == (0, "nothing is being made\n")
    builds = shop.start("build")
    shop.wait_for("two")
    watch = shop.start("watch", "slow")
    assert watch.stdout is not None
    lines = iter(watch.stdout.readline, "")
    assert next(line for line in lines if line.startswith("slow|")) == "slow| loud\n"
    (shop.root / "go").touch()
    status, said = shop.end(watch)
    assert status == 0
    assert said.endswith("made     slow\n")
    assert shop.end(builds)[0] == 0


@pytest.mark.torture
def test_clean_forgets_what_ended_and_keeps_what_has_not(shop: Shop) -> None:
    (shop.root / "in.txt").write_text("a")
    shop.says(COPY + WAITS)
    assert shop.run("build", "copy")[0] == 0
    builds = shop.start("build", "slow")
    shop.wait_for("two")
    assert shop.run("clean", "--days", "1") == (0, "forgot 0 builds, removed 0 kept files\n")
    assert shop.run("clean", "--outputs") == (
        0, "forgot 1 builds, removed 1 kept files\nremoved 1 outputs\n"
    )  # fmt: skip
    (shop.root / "go").touch()
    assert shop.end(builds)[0] == 0
    assert not (shop.root / "out.txt").exists()
    assert shop.build("copy")[1] == ["made     copy"]
    assert shop.build("slow")[1] == ["fresh    slow"]


def test_a_mistake_of_the_caller_ends_with_2_and_a_remedy(shop: Shop) -> None:
    assert "builds.toml cannot be read" in shop.run("build")[1]
    shop.says("[a]\ninputs = ['none-*']\nrun = ['true']")
    assert shop.run("build", "b") == (2, "builds: there is no target 'b'; there are a\n")
    status, said = shop.run("build")
    assert status == 2
    assert "target 'a': no file fits the input 'none-*'" in said
    assert shop.run("log", "a") == (2, "builds: target 'a' has no build here; build it first\n")
    for words in (["-j", "0"], ["-j", "²"], ["--grace", "nan"], ["--state", "builds.toml"]):
        assert shop.run("build", *words)[0] == 2
    (shop.root / "bad").mkdir()
    (shop.root / "bad" / "builds.db").write_text("no database" * 1000)
    shop.says("[a]\nrun = ['true']")
    status, said = shop.run("build", "--state", "bad")
    assert status == 2
    assert "Traceback" not in said
