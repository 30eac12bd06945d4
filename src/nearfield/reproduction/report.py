"""Sections of the report: pictures, tables, Markdown, and one page that shows all."""

from __future__ import annotations

import csv
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..common.files import atomic

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Cells as text, with a heading of its own."""

    title: str
    header: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        """As a Markdown table."""
        lines = [f"### {self.title}", "", "| " + " | ".join(self.header) + " |", "|" + "---|" * len(self.header)]
        rows = ([cell.replace("|", "\\|") for cell in row] for row in self.rows)
        return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])

    def html(self) -> str:
        """As an HTML table that folds away when it is long."""
        head = "".join(f"<th>{html.escape(c)}</th>" for c in self.header)
        body = "".join("<tr>" + "".join(_html_cell(c) for c in row) + "</tr>" for row in self.rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        opened = " open" if len(self.rows) <= 16 else ""
        title = f"{html.escape(self.title)} <small>({len(self.rows)} rows)</small>"
        return f"<details{opened}><summary>{title}</summary><div class='wide'>{table}</div></details>"


@dataclass(frozen=True)
class Section:
    """What one figure came to: pictures by file name and caption, what they show in words, and tables."""

    name: str
    title: str
    pictures: list[tuple[str, str]]
    findings: list[str]
    tables: list[Table] = field(default_factory=list)

    def markdown(self, pictures: str = "") -> str:
        """As Markdown; `pictures` is the folder that the pictures are in, seen from the page."""
        shown = [f"![{caption}]({pictures}{file})" for file, caption in self.pictures]
        findings = "\n".join(f"- {line}" for line in self.findings)
        return "\n\n".join([f"## {self.title}", *shown, findings, *(t.markdown() for t in self.tables)]) + "\n"

    def html(self) -> str:
        """As a part of the page."""
        shown = "".join(
            f"<figure><a href='{Path(f).with_suffix('.pdf').name}'><img src='{f}' alt='{html.escape(c)}'></a>"
            f"<figcaption>{html.escape(c)}</figcaption></figure>"
            for f, c in self.pictures
        )
        findings = "".join(f"<li>{html.escape(line)}</li>" for line in self.findings)
        tables = "".join(t.html() for t in self.tables)
        name, title = self.name, html.escape(self.title)
        files = f"<p class='files'><a href='{name}.csv'>{name}.csv</a> · <a href='{name}.md'>Markdown</a></p>"
        return f"<section id='{name}'><h2>{title}</h2>{shown}<ul>{findings}</ul>{tables}{files}</section>"


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table; an empty string for None."""
    return "" if value is None else f"{value:.{digits}g}"


def save_picture(figure: Any, folder: Path, stem: str) -> str:
    """Write a matplotlib figure as PNG and PDF, each whole or not at all, and answer with the PNG's name."""
    for suffix in ("pdf", "png"):
        with atomic(folder / f"{stem}.{suffix}") as temporary:
            figure.savefig(temporary, format=suffix, dpi=110)
    figure.clear()
    return f"{stem}.png"


def save_csv(rows: Sequence[Row], path: Path) -> None:
    """Write rows of the same columns."""
    with atomic(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def save_section(section: Section, rows: Sequence[Row], folder: Path, remembered: Path) -> None:
    """Write the section's numbers, its summary, and what the page needs to show it again."""
    save_csv(rows, folder / f"{section.name}.csv")
    with atomic(folder / f"{section.name}.md") as temporary:
        temporary.write_text(section.markdown(), encoding="utf-8")
    remembered.mkdir(parents=True, exist_ok=True)
    with atomic(remembered / f"{section.name}.json") as temporary:
        temporary.write_text(json.dumps(asdict(section)), encoding="utf-8")


def recall_sections(names: Sequence[str], remembered: Path) -> list[Section]:
    """Sections written so far, by this run or an earlier one, in the order of the names."""
    sections = []
    for name in names:
        try:
            stored = json.loads((remembered / f"{name}.json").read_text(encoding="utf-8"))
            tables = [Table(**table) for table in stored.pop("tables")]
            pictures = [(str(f), str(c)) for f, c in stored.pop("pictures")]
            sections.append(Section(tables=tables, pictures=pictures, **stored))
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return sections


def save_page(sections: Sequence[Section], path: Path, subtitle: str) -> None:
    """Write the page that shows all sections."""
    contents = " · ".join(f"<a href='#{s.name}'>{html.escape(s.title)}</a>" for s in sections)
    body = "".join(s.html() for s in sections)
    page = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>nearfield: the paper reproduced</title>"
        f"<meta name='viewport' content='width=device-width'><style>{_STYLE}</style></head><body>"
        f"<h1>Local random features, reproduced</h1><p>{html.escape(subtitle)}</p><nav>{contents}</nav>"
        f"{body}</body></html>"
    )
    with atomic(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _html_cell(text: str) -> str:
    kind = _KINDS.get(text, "number" if _is_number(text) else "")
    attribute = f" class='{kind}'" if kind else ""
    return f"<td{attribute}>{html.escape(text)}</td>"


def _is_number(text: str) -> bool:
    try:
        float(text.replace("±", "").split()[0])
    except (ValueError, IndexError):
        return False
    return True


_KINDS = {"agrees": "good", "same size": "good", "yes": "good", "differs": "bad", "other size": "bad", "no": "bad"}
_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{margin-bottom:0}h2{margin-top:3rem;border-top:1px solid #d8dee4;padding-top:1.5rem}nav{margin:1rem 0}
figure{margin:1rem 0}img{max-width:100%;height:auto}figcaption{color:#57606a;font-size:.9rem}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem;border-bottom:1px solid #eaeef2;text-align:left;white-space:nowrap}
td.number{text-align:right}td.good{color:#1a7f37}td.bad{color:#cf222e;font-weight:600}
.wide{overflow-x:auto}summary{cursor:pointer;font-weight:600;margin:.8rem 0}.files{font-size:.9rem}
"""
