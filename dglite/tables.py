"""Tables as text for terminals and as HTML for notebooks, and numbers as people read them.

The HTML is self-contained: a style sheet of its own, no scripts, dark where the reader prefers dark. Cells are plain
strings and are escaped here, so that names from data cannot become markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

_STYLE = """<style>
.dglite{--ink:#1f2733;--soft:#5b6675;--line:#d8dee6;--paper:#fff;--band:#f3f5f8;--chip:#e6eef9;--bar:#8fb3e8;
display:inline-block;max-width:100%;overflow-x:auto;box-sizing:border-box;margin:4px 0;padding:10px 14px;
border:1px solid var(--line);border-radius:6px;background:var(--paper);color:var(--ink);
font:13px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;text-align:left}
@media (prefers-color-scheme:dark){.dglite{--ink:#e3e8ef;--soft:#9aa6b5;--line:#3a434f;--paper:#1b2027;--band:#242b34;
--chip:#2b3b52;--bar:#3f679f}}
.dglite b{font-weight:600}.dglite .soft{color:var(--soft)}.dglite .facts{color:var(--soft);margin:1px 0 0}
.dglite table{border-collapse:collapse;margin:8px 0 0;font-size:12px;color:inherit;border:0}
.dglite th,.dglite td{padding:3px 12px 3px 8px;text-align:left;vertical-align:top;border:0;background:none;
color:inherit;white-space:nowrap}
.dglite thead th{font-weight:600;color:var(--soft);border-bottom:1px solid var(--line)}
.dglite tbody tr{background:none}.dglite tbody tr:nth-child(even){background:var(--band)}
.dglite table.noted tbody tr{background:none;border-top:1px solid var(--line)}
.dglite table.noted tbody tr.note{border-top:0}.dglite .note td{color:var(--soft);padding:0 12px 4px 24px}
.dglite td.number,.dglite th.number{text-align:right;font-variant-numeric:tabular-nums}
.dglite td.chips{white-space:normal;min-width:200px;max-width:560px}
.dglite .chip{white-space:nowrap}
.dglite .chip{display:inline-block;margin:0 6px 2px 0;padding:0 6px;border-radius:4px;background:var(--chip)}
.dglite pre{margin:6px 0 0;padding:0;font:12px/1.5 ui-monospace,Menlo,Consolas,monospace;background:none;color:inherit;
border:0;white-space:pre}
.dglite .bar{display:inline-block;width:80px;height:9px;border-radius:2px;background:var(--band)}
.dglite .bar i{display:block;height:9px;border-radius:2px;background:var(--bar)}
</style>"""


class Bar(NamedTuple):
    """A cell that shows a share from 0 to 1: a bar in HTML, a percentage in text."""

    share: float

    def __str__(self) -> str:
        return f"{100 * self.share:.0f}%"


def text_table(head: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Iterable[int] = ()) -> list[str]:
    """Return the lines of a table whose columns are aligned: those of ``numbers`` to the right, the others left.

    The first line is the head. A cell is text, a number, which gets separators of thousands, or None, which is empty.
    """
    lines = [head, *([_text(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = set(numbers)
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def html_card(title: str, facts: Iterable[str] = (), *parts: str) -> str:
    """Return HTML with a title, facts below it, and ``parts``, which are HTML of :func:`html_table` and the like."""
    below = " · ".join(escape(fact) for fact in facts)
    head = f"<b>{escape(title)}</b>" + (f'<div class="facts">{below}</div>' if below else "")
    return f'{_STYLE}<div class="dglite">{head}{"".join(parts)}</div>'


def html_table(
    head: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Iterable[int] = (), notes: Sequence[str] = ()
) -> str:
    """Return a table as HTML.

    A cell is what :func:`text_table` takes, or a :class:`Bar`, or a list of strings, each of which is framed.
    ``notes`` has a text for each row that is written below it, "" for none.
    """
    right = set(numbers)
    lines = []
    for i, row in enumerate(rows):
        lines.append(f"<tr>{''.join(_cell('td', cell, j in right) for j, cell in enumerate(row))}</tr>")
        if i < len(notes) and notes[i]:
            lines.append(f'<tr class="note"><td colspan="{len(head)}">{escape(notes[i])}</td></tr>')
    top = "".join(_cell("th", name, j in right) for j, name in enumerate(head))
    kind = ' class="noted"' if any(notes) else ""
    return f"<table{kind}><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def html_text(text: str) -> str:
    """Return text as HTML, line by line in letters of one width."""
    return f"<pre>{escape(text)}</pre>"


def _cell(tag: str, cell: Any, right: bool) -> str:
    if isinstance(cell, Bar):
        width = f"{100 * min(max(cell.share, 0.0), 1.0):.1f}%"
        content = f'<span class="bar" title="{cell}"><i style="width:{width}"></i></span>'
    elif isinstance(cell, list):
        content = "".join(f'<span class="chip">{escape(str(each))}</span>' for each in cell)
    else:
        content = escape(_text(cell))
    kind = ' class="number"' if right else ' class="chips"' if isinstance(cell, list) else ""
    return f"<{tag}{kind}>{content}</{tag}>"


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def bytes_text(count: float | None) -> str:
    """Return a number of bytes with its unit, three digits; "?" for None."""
    if count is None:
        return "?"
    size, units = float(count), ["B", "KB", "MB", "GB", "TB"]
    while abs(size) >= 999.5 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}" if abs(size) < 999.5 else f"{size:,.0f} {units[0]}"


def seconds_text(seconds: float) -> str:
    """Return a duration with its unit, three digits: microseconds, milliseconds or seconds."""
    for scale, unit in ((1e-6, "us"), (1e-3, "ms")):
        if seconds < 999.5 * scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.4g} s"
