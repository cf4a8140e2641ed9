"""The commands of the guard: rule files are checked, and the tests beside their rules are run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentic_kernel import KernelError

from . import rendering
from .kinds import install
from .text import label

if TYPE_CHECKING:
    from agentic_kernel_guard.rules.text import Form

guard = typer.Typer(help="Look at the rules of the guard.", no_args_is_help=True)
policy = typer.Typer(help="Check and test rule files.", no_args_is_help=True)
guard.add_typer(policy, name="policy")

File = Annotated[Path, typer.Argument(metavar="FILE", help="Rules, in .yaml, .yml or .toml.")]
_FORMS: dict[str, Form] = {".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}


class BadRules(KernelError):
    """A rule file cannot be used; the message has the file, the line and the column."""


@policy.command()
def check(context: typer.Context, file: File) -> int:
    """Check a rule file; the error says the line and the column."""
    rules = _rules()
    found = _used(file, rules.parse)
    _used(file, rules.cases)
    if context.obj.as_json:
        rendering.json_line("policy", {"file": str(file), "rules": len(found.rules)})
    else:
        typer.echo(f"{label(str(file))}: {len(found.rules):,} rules, no problem found")
    return 0


@policy.command()
def test(context: typer.Context, file: File) -> int:
    """Run the tests that stand beside the rules; 1 if one of them fails, or there is none."""
    rules = _rules()
    found = _used(file, rules.parse)
    failed = 0
    listed = _used(file, rules.cases)
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
                f"{said.effect}: {label(said.reason)}"
            )
    if not context.obj.as_json:
        typer.echo(f"{len(listed) - failed:,} of {len(listed):,} tests passed")
    return 1 if failed else 0


def _rules() -> Any:
    try:
        from agentic_kernel_guard import rules
    except ImportError:
        raise BadRules(f"the guard is not installed; {install('guard')}") from None
    return rules


def _used(file: Path, read: Any) -> Any:
    """What `read` makes of a file's text."""
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
