"""``python -m integration.products.builds``: the command of the build runner."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from agentic_kernel import KernelError

from .commands import build, clean, log, resume, status, stop, watch
from .shelf import MistakeError

_EPILOG = """The exit status is 0 if all went well, 1 if a target failed, was stopped or
was skipped, 2 for a mistake, and 128 and the number of the signal after Ctrl-C or SIGTERM."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    given = _parser().parse_args(arguments)
    if not Path("/proc/self/environ").exists():
        print("builds: needs Linux, to find the processes of a target in /proc", file=sys.stderr)
        return 2
    try:
        return int(asyncio.run(given.act(given)))
    except KeyboardInterrupt:
        print("builds: ended at once", file=sys.stderr)
        return 130
    except (MistakeError, KernelError, OSError) as error:
        print(f"builds: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="builds", description="Make targets by commands, each once.", epilog=_EPILOG
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, act: object, help: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=help, description=help)
        one.set_defaults(act=act)
        one.add_argument(
            "--state", type=Path, default=Path(".builds"), metavar="DIR",
            help="the folder that keeps what was made (.builds)",
        )  # fmt: skip
        return one

    def file(one: argparse.ArgumentParser) -> None:
        one.add_argument(
            "--file", type=Path, default=Path("builds.toml"), help="the build file (builds.toml)"
        )

    def targets(one: argparse.ArgumentParser, without: str) -> None:
        one.add_argument("targets", nargs="*", metavar="TARGET", help=without)

    def runs(one: argparse.ArgumentParser) -> None:
        one.add_argument(
            "-j", "--jobs", type=_count, default=2, help="the most targets made at once (2)"
        )
        one.add_argument(
            "--grace", type=_seconds, default=30.0, metavar="SECONDS",
            help="how long a running line may go on after Ctrl-C or SIGTERM (30)",
        )  # fmt: skip

    one = command("build", build, "make targets, and the targets that they need")
    targets(one, "all targets if none is named")
    file(one)
    runs(one)
    one = command("status", status, "say which targets are fresh, stale, being made or left")
    targets(one, "all targets if none is named")
    file(one)
    one = command("watch", watch, "show the output of targets while they are made")
    targets(one, "all that are being made if none is named")
    one = command("log", log, "print the output of the last build of a target")
    one.add_argument("target", metavar="TARGET")
    one = command("stop", stop, "end the build of targets, in whichever process it runs")
    targets(one, "needed without --all")
    one.add_argument("--all", action="store_true", help="everything that has not ended")
    one = command("resume", resume, "go on with builds that no living process has")
    targets(one, "all that are left if none is named")
    runs(one)
    one = command("clean", clean, "forget ended builds, and remove the outputs kept for them")
    file(one)
    one.add_argument(
        "--days", type=_days, default=0, help="only builds that ended so many days ago (0)"
    )
    one.add_argument(
        "--outputs", action="store_true", help="also remove the outputs that the build file names"
    )
    return parser


def _count(text: str) -> int:
    return _number(text, 1, 1_000)


def _days(text: str) -> int:
    return _number(text, 0, 36_500)


def _number(text: str, least: int, most: int) -> int:
    if not (text.isdecimal() and len(text) <= 5 and least <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {most:,}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 86,400")
    return seconds


if __name__ == "__main__":
    raise SystemExit(main())
