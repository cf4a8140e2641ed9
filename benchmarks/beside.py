"""A figure of ours beside the same of another library, and the table of such figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from figure import table as table_of_figures


@dataclass(frozen=True, slots=True)
class Beside:
    """One figure beside another library's, measured in the same run."""

    name: str
    ours: float
    theirs: float | None
    peer: str
    """The library and its version."""
    unit: str
    absent: str = ""
    """Why there is no figure of the other library."""

    def record(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {"beside": self.peer, **asdict(self)}


def table(findings: Sequence[dict[str, Any]]) -> str:
    """The figures, and below them a table for each library that stands beside ours."""
    parts = [table_of_figures([each for each in findings if "bar" in each])]
    others = (each for each in findings if "beside" in each)
    for peer, rows in groupby(others, key=lambda each: each["beside"]):
        lines = [f"| what | ours | {peer} | ours ÷ theirs |", "|---|---|---|---|"]
        for each in rows:
            theirs, unit = each["theirs"], each["unit"]
            said = f"{theirs:,.0f} {unit}" if theirs else f"no figure: {each['absent']}"
            ratio = f"{each['ours'] / theirs:.2f}" if theirs else ""
            lines.append(f"| {each['name']} | {each['ours']:,.0f} {unit} | {said} | {ratio} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts).strip()
