"""Naming: the ways in which a person names a stored Task."""

from __future__ import annotations

from typing import Final

MIN_PART: Final = 6
"""Minimum length of an abbreviated id, in characters."""
LAST: Final = "the newest Task of a person"
"""Stands for the id of the newest Task that has no parent. Compared by identity, because it could
be an id as well."""
STATE_VARIABLE: Final = "AGENTIC_KERNEL_STATE"
"""The environment variable that names the place of the Tasks."""
