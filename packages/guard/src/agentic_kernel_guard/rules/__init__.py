"""Rules: a language for what is allowed, which people can read. It imports nothing of the guard."""

from .cases import Case, cases
from .counters import Counters
from .rule import Approval, Limit, Rule, Window
from .ruleset import Asked, Near, RuleSet, Verdict
from .text import RuleError
from .writing import parse, read

__all__ = [
    "Approval",
    "Asked",
    "Case",
    "Counters",
    "Limit",
    "Near",
    "Rule",
    "RuleError",
    "RuleSet",
    "Verdict",
    "Window",
    "cases",
    "parse",
    "read",
]
