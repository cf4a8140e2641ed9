"""Brings what the benchmarks found into the pages: their tables, and plots of what grows.

python -m integration.pages.figures            rewrite the plots, and what is between the marks
python -m integration.pages.figures --check    fail if they are not those of the recorded figures
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .dots import dots
from .plots import plot
from .sections import DOCS, only_checks, renewed, settle

SCRIPT = "figures.py"
RESULTS = DOCS.parent / "benchmarks" / "results"
PLOTS = DOCS / "plots"
PAGES = {
    "benchmarks.md": "End to end",
    "claude.md": "ClaudeRuntime",
    "copilot.md": "CopilotRuntime",
    "injection.md": "AgentDojo",
    "ollama.md": "OllamaRuntime",
    "openai.md": "OpenAI:",
    "opentelemetry.md": "OpenTelemetry:",
    "postgres.md": "PostgresStore",
}
"""Which heading of the recorded tables a page shows, by how it begins."""


def table(heading: str) -> str:
    """What is recorded under a heading.

    Raises:
        SystemExit: There is no such heading.
    """
    text = (RESULTS / "README.md").read_text(encoding="utf-8")
    for section in text.split("\n## ")[1:]:
        first, _, rest = section.partition("\n")
        if first.startswith(heading):
            return rest.strip()
    sys.exit(f"no figures are recorded of {heading}; run python benchmarks/run.py")


def plots() -> dict[Path, str]:
    """Every plot of what is recorded, by its file."""
    found = {}
    for path in sorted(RESULTS.glob("*.json")):
        for drawn in json.loads(path.read_text(encoding="utf-8"))["figures"]:
            if "series" in drawn:
                found[PLOTS / f"{path.stem}-{drawn['series']}.svg"] = plot(drawn)
            if "panels" in drawn:
                found[PLOTS / f"{path.stem}-{drawn['panels']}.svg"] = dots(drawn)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the pages and plots, or with ``--check`` fail if that would change one."""
    check = only_checks(arguments, SCRIPT, __doc__)
    files = plots()
    for name, heading in PAGES.items():
        text = (DOCS / name).read_text(encoding="utf-8")
        files[DOCS / name] = renewed(text, "figures", SCRIPT, table(heading))
    if not check:
        PLOTS.mkdir(exist_ok=True)
        for path in files:
            path.touch()
    settle(files, SCRIPT, check=check)


if __name__ == "__main__":
    main()
