"""The texts of the rules: one page for each, inside the installed kit."""

from __future__ import annotations

from importlib.resources import files

from .rules import RULES

_PACKAGE = __name__.rpartition(".")[0]


class UnknownRule(LookupError):
    """The kit has no rule of this name.

    Attributes:
        name: The name that was asked for.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"the kit has no rule {ascii(name)}; `agentic-kernel-conformance explain` lists all "
            f"{len(RULES)}"
        )


def explain(name: str) -> str:
    """Return the page of a rule as Markdown: its reason, its tests, and the smallest break.

    Args:
        name: The name of the rule, such as ``R14``; upper and lower case are the same.

    Raises:
        UnknownRule: There is no such rule.
    """
    rule = {known.lower(): rule for known, rule in RULES.items()}.get(name.lower())
    if rule is None:
        raise UnknownRule(name)
    page = files(_PACKAGE) / "rule_pages" / f"{rule.name.lower()}.md"
    return page.read_text(encoding="utf-8")


def overview() -> str:
    """Return one line for each rule: its name, its title, and what it asks for."""
    width = max(len(name) for name in RULES)
    return "\n".join(f"{name:<{width}}  {r.title}: {r.asks}" for name, r in RULES.items())
