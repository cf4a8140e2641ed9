"""The commands about the guard's rules: files are checked, tested and explained."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentic_kernel import KernelError

from . import rendering
from .groups import Group
from .kinds import install
from .serving import installed
from .text import label, line

if TYPE_CHECKING:
    from agentic_kernel_guard.rules.text import Form

guard = typer.Typer(
    cls=Group,
    help="Look at the rules and the trace of the guard.",
    no_args_is_help=True,
    add_completion=False,
)
policy = typer.Typer(
    cls=Group, help="Check, test, explain and compare rule files.", no_args_is_help=True
)
guard.add_typer(policy, name="policy")

File = Annotated[Path, typer.Argument(metavar="FILE", help="Rules, in .yaml, .yml or .toml.")]
_FORMS: dict[str, Form] = {".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}


class BadRules(KernelError):
    """A rule file cannot be used; the message has the file, the line and the column."""


@policy.command()
def check(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="Rules, in .yaml, .yml or .toml; or the policy folder of a server."
        ),
    ],
) -> int:
    """Check a rule file, or the folder of a server; the error says the line and the column."""
    rules = read_rules()
    if file.is_dir():
        count = installed("agentic_kernel_server.policy.files").read(file).count
        for each in sorted(file.iterdir()):
            if not each.name.startswith("."):
                used(each, rules.cases)
    else:
        count = len(used(file, rules.parse).rules)
        used(file, rules.cases)
    if context.obj.as_json:
        rendering.json_line("policy", {"file": str(file), "rules": count})
    else:
        typer.echo(f"{label(str(file))}: {count:,} rules, no problem found")
    return 0


@policy.command()
def test(context: typer.Context, file: File) -> int:
    """Run the tests that stand beside the rules; 1 if one of them fails, or there is none."""
    rules = read_rules()
    found = used(file, rules.parse)
    failed = 0
    listed = used(file, rules.cases)
    if not listed:
        raise BadRules(f"{file}: has no tests; add a list under tests")
    for case in listed:
        said = case.failed(found)
        failed += said is not None
        if context.obj.as_json:
            rendering.json_line(
                "case",
                {
                    "name": case.name,
                    "line": case.line,
                    "expected": case.expect,
                    "passed": said is None,
                    "said": said.effect if said else case.expect,
                    "reason": said.reason if said else "",
                },
            )
        elif said is not None:
            typer.echo(
                f"line {case.line}: {label(case.name)}: expected {case.expect}, but the rules say "
                f"{said.effect}: {line(said.reason)}"
            )
    if not context.obj.as_json:
        typer.echo(f"{len(listed) - failed:,} of {len(listed):,} tests passed")
    return 1 if failed else 0


@policy.command()
def explain(
    context: typer.Context,
    file: File,
    capability: Annotated[str, typer.Option(help="The capability.")],
    principal: Annotated[str, typer.Option(help="The name of the principal.")] = "",
    tenant: Annotated[str, typer.Option(help="The tenant.")] = "",
    role: Annotated[list[str] | None, typer.Option(help="A role; may be given again.")] = None,
    agent: Annotated[str, typer.Option(help="The agent.")] = "",
    safety: Annotated[str, typer.Option(help="read, write or destructive.")] = "",
    argument: Annotated[
        list[str] | None, typer.Option(metavar="NAME=JSON", help="An argument of the call.")
    ] = None,
    carries: Annotated[list[str] | None, typer.Option(help="A source of the arguments.")] = None,
    has_read: Annotated[list[str] | None, typer.Option(help="A source that was read.")] = None,
    at: Annotated[datetime | None, typer.Option(help="The time, UTC; now by default.")] = None,
) -> int:
    """Say which rule decides a request, and which rules failed on one thing only."""
    rules = read_rules()
    moment = at or datetime.now(UTC)
    asked = rules.Asked(
        capability,
        dict(map(_argument, argument or ())),
        moment if moment.tzinfo else moment.replace(tzinfo=UTC),
        principal,
        tenant,
        frozenset(role or ()),
        agent,
        safety,
        carries=frozenset(carries or ()),
        has_read=frozenset(has_read or ()),
    )
    found = used(file, rules.parse)
    verdict, near = found.decide(asked), found.near(asked)
    if context.obj.as_json:
        rendering.json_line(
            "decision",
            {
                "effect": verdict.effect,
                "rule": verdict.rule,
                "reason": verdict.reason,
                "near": [
                    {"rule": each.rule, "effect": each.effect, "failed": each.failed}
                    for each in near
                ],
            },
        )
        return 0
    typer.echo(f"{verdict.effect}: {line(verdict.reason)}")
    for each in near:
        typer.echo(f"{label(each.rule)} would say {each.effect}, but for {label(each.failed)}")
    return 0


def _argument(said: str) -> tuple[str, Any]:
    name, equals, text = said.partition("=")
    try:
        if not equals:
            raise ValueError
        return name, json.loads(text)
    except ValueError:
        raise BadRules(
            f"--argument {said}: write NAME=JSON, e.g. amount=3 or to='\"ann\"'"
        ) from None


def read_rules() -> Any:
    """The module of rules."""
    try:
        from agentic_kernel_guard import rules
    except ImportError:
        raise BadRules(f"the guard is not installed; {install('guard')}") from None
    return rules


def used(file: Path, read: Any) -> Any:
    """Return the result of `read` for a file's text."""
    from agentic_kernel_guard.rules import RuleError

    form = _FORMS.get(file.suffix.lower())
    if form is None:
        raise BadRules(f"{file}: is no .yaml, .yml or .toml file")
    try:
        return read(file.read_text(encoding="utf-8"), form)
    except UnicodeDecodeError:
        raise BadRules(f"{file}: is not UTF-8; save it as UTF-8") from None
    except RuleError as error:
        raise BadRules(f"{file}, {error}") from None
