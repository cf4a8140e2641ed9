"""The files of a report: JSON with a digest, Markdown, and an SVG badge."""

from __future__ import annotations

import json
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any, Final

from .report import Adapter, Report
from .rules import RULES

_WORDS: Final = {"passed": "passed", "partial": "PARTIAL", "failed": "FAILED", "error": "ERROR"}
_COLOURS: Final = {
    "passed": "#2e7d32",
    "partial": "#b26a00",
    "failed": "#c62828",
    "error": "#6d4c41",
}
_HEADER: Final = ("kit", "kernel", "engine", "python", "platform", "date", "seed", "level")
_WIDTH: Final = 7
"""Pixels that one character of the badge takes."""


def digest(document: dict[str, Any]) -> str:
    """Return ``sha256:…`` over the canonical form of a report, without its field ``digest``.

    The canonical form is JSON in UTF-8 with sorted keys and without spaces.
    """
    rest = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def write(report: Report, path: Path) -> list[Path]:
    """Write ``.json``, ``.md`` and ``.svg`` side by side; return the three paths."""
    stem = path.with_suffix("") if path.suffix in (".json", ".md", ".svg") else path
    stem.parent.mkdir(parents=True, exist_ok=True)
    document = json.loads(json.dumps(report.document()))
    document["digest"] = digest(document)
    texts = {
        "json": f"{json.dumps(document, indent=2, ensure_ascii=True)}\n",
        "md": markdown(report, document),
        "svg": badge(document),
    }
    written = [stem.with_name(f"{stem.name}.{end}") for end in texts]
    for place, text in zip(written, texts.values(), strict=True):
        place.write_text(text, encoding="utf-8")
    return written


def markdown(report: Report, document: dict[str, Any]) -> str:
    """Return the header, a matrix rule × adapter for each contract, and what is not proven.

    The text is Markdown. The adapters are sorted by their contract and name, because a run on
    several workers has another order each time.
    """
    adapters = sorted(report.adapters.values(), key=lambda each: (each.contract, each.name))
    lines = [f"# Conformance: {_WORDS[report.verdict]}", ""]
    lines += [_row(["run", ""]), _row(["---", "---"])]
    lines += [_row([name, str(document[name])]) for name in _HEADER]
    lines += [_row(["digest of the JSON", document["digest"]]), ""]
    if reasons := report.partial():
        lines += ["## PARTIAL", "", *(f"- {reason}" for reason in reasons), ""]
    if report.errors:
        told = [f"- {test}: {what}" for test, what in report.errors.items()]
        lines += ["## Crashed worker processes of pytest", "", *told, ""]
    lines += ["## Rules", ""]
    contracts = sorted({adapter.contract for adapter in adapters})
    for contract in contracts:
        if len(contracts) > 1:
            lines += [f"### {contract}", ""]
        lines += [*_rules([each for each in adapters if each.contract == contract]), ""]
    lines += [*(f"- {adapter.line()}" for adapter in adapters), ""]
    lines += ["## Adapters", ""]
    for each in adapters:
        opened = [name for name, is_open in each.features.items() if is_open]
        closed = [name for name, is_open in each.features.items() if not is_open]
        lines.append(
            f"- {each.name}: patience {each.patience:g} s; open: {', '.join(opened) or 'none'}; "
            f"closed: {', '.join(closed) or 'none'}"
        )
        if each.bounds:
            bounds = ", ".join(f"{name} {value}" for name, value in each.bounds.items())
            lines.append(f"    - declared bounds: {bounds}")
        for part in each.sources:
            made = f"{part.distribution} {part.version}".strip() or "no distribution"
            lines.append(f"    - `{part.package}` ({made}): {part.files} files, {part.sha256}")
    lines += [""]
    if told := [
        f"- {each.name} {verdict.test} ({', '.join(verdict.rules)}): {verdict.detail}"
        for each in adapters
        for verdict in each.verdicts.values()
        if verdict.outcome == "excused"
    ]:
        lines += ["## Excused", "", *told, ""]
    if told := [
        f"- {each.name}: {part.rule}: {part.text}"
        + (f" (closed: {part.unless})" if part.unless else "")
        for each in adapters
        for part in each.unproven
    ]:
        lines += ["## Not proven", "", *told, ""]
    if report.tallies:
        lines += ["## Random tests", "", *(f"- {line}" for line in report.trials()), ""]
    return "\n".join(lines)


def _rules(adapters: list[Adapter]) -> list[str]:
    """The matrix of the adapters of one contract: the rules that it asks, and the totals."""
    lines = [_row(["rule", *(adapter.name for adapter in adapters)])]
    lines.append(_row(["---"] * (len(adapters) + 1)))
    for name, rule in RULES.items():
        if any(adapter.rule(name) for adapter in adapters):
            cells = [adapter.cell(name) for adapter in adapters]
            lines.append(_row([f"{name}: {rule.title}", *cells]))
    counts = [adapter.counts() for adapter in adapters]
    lines.append(_row(["passed", *(f"{each['passed']} of {each.total()}" for each in counts)]))
    return lines


def badge(document: dict[str, Any]) -> str:
    """Return the report as a badge: its contracts, its verdict, and the tests passed of all."""
    contracts = sorted({adapter["contract"] for adapter in document["adapters"]})
    # A badge is for one line of a page, so it names no more than two contracts.
    left = " + ".join(contracts) if len(contracts) in (1, 2) else f"{len(contracts)} contracts"
    passed = sum(adapter["passed"] for adapter in document["adapters"])
    total = sum(adapter["total"] for adapter in document["adapters"])
    right = f"{_WORDS[document['verdict']]} {passed} of {total}"
    first, second = (_WIDTH * len(text) + 12 for text in (left, right))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{first + second}" height="20" role="img">'
        f"<title>{escape(left)}: {escape(right)}</title>"
        f'<rect width="{first}" height="20" fill="#455a64"/>'
        f'<rect x="{first}" width="{second}" height="20" '
        f'fill="{_COLOURS[document["verdict"]]}"/>'
        '<g fill="#fff" font-family="monospace" font-size="11" text-anchor="middle">'
        f'<text x="{first / 2:g}" y="14">{escape(left)}</text>'
        f'<text x="{first + second / 2:g}" y="14">{escape(right)}</text>'
        "</g></svg>\n"
    )


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
