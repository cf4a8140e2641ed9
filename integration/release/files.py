"""The built files: the same bytes each time, and a wheel that its sdist makes again."""

from __future__ import annotations

import hashlib
from pathlib import Path

from .finding import Finding


def equal(subject: str, first: Path, second: Path, pattern: str) -> Finding:
    """The files of two folders have the same names and bytes."""
    one, two = _digests(first, pattern), _digests(second, pattern)
    if not one:
        return Finding(subject, False, f"there is no {pattern} in {first.name}")
    other = sorted(name for name in {*one, *two} if one.get(name) != two.get(name))
    if other:
        return Finding(subject, False, f"{', '.join(other)} differ")
    return Finding(subject, True, f"{len(one)} files ({pattern}) have the same bytes")


def _digests(folder: Path, pattern: str) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob(pattern)
    }
