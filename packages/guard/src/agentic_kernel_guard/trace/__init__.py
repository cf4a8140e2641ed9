"""The trace: what was granted, denied and done, in one chain of hashes for each store."""

from .action import ActionTrace, traced
from .chain import START, Broken, Checked, Head, Link, check_export, export, linked, signed, verify

__all__ = [
    "START",
    "ActionTrace",
    "Broken",
    "Checked",
    "Head",
    "Link",
    "check_export",
    "export",
    "linked",
    "signed",
    "traced",
    "verify",
]
