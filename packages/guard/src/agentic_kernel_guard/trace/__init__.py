"""The trace: what was granted, denied and done, in one chain of hashes for each store."""

from .action import ActionTrace, traced
from .chain import START, Broken, Checked, Head, Link, check_export, export, linked, signed, verify
from .replay import Replayed, replayed

__all__ = [
    "START",
    "ActionTrace",
    "Broken",
    "Checked",
    "Head",
    "Link",
    "Replayed",
    "check_export",
    "export",
    "linked",
    "replayed",
    "signed",
    "traced",
    "verify",
]
