"""Write the index of the decisions from the line below each title: its topic, date and status.

``python docs/decisions.py`` also gives a page without such a line today's date; ``--check`` changes nothing.
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "decisions"
INDEX = FOLDER / "index.md"

TOPICS = (
    "Message passing",
    "Kernels and their compiler",
    "Structure",
    "Backends and memory",
    "Programs of torch",
    "GPUs",
    "Mini-batches and sampling",
    "Layers and explainers",
    "Data and files",
    "Dynamic networks",
    "Partitioned training",
    "Several machines",
    "DGL's names",
    "The project",
)

LINE = re.compile(r"\*([^*\n]+), (\d{4}-\d\d-\d\d)\. (Holds|Replaced by \[\d+\]\((0\d{3}-[\w-]+\.md)\))\.\*")
"""``*Topic, date. Holds.*`` or ``*Topic, date. Replaced by [n](page).*``"""

HEAD = """# Decisions

Why some things are as they are, a page each: what was measured, what was decided, and what it costs. A title says what
was decided. Each page names its topic, its date and whether it still holds. Numbers are not used again; a missing
number is a page that was dropped.

```{toctree}
:glob:
:hidden:
:maxdepth: 1

0*
```
"""


def pages() -> list[Path]:
    """Return the pages in the order of their numbers."""
    return sorted(FOLDER.glob("0*.md"))


def described(path: Path) -> tuple[str, str, str, str] | None:
    """Return title, topic, date and status of a page, or None if the line below its title says none."""
    title, _, line = path.read_text(encoding="utf-8").split("\n", 3)[:3]
    match = LINE.fullmatch(line)
    return None if match is None else (title.removeprefix("# ").partition(" ")[2], *match.groups()[:3])


def with_line(text: str, topic: str, date: str, status: str = "Holds") -> str:
    """Return a page's text with the line below its title."""
    title, _, rest = text.partition("\n")
    return f"{title}\n\n*{topic}, {date}. {status}.*\n{rest}"


def index() -> str:
    """Return the index: the pages of each topic."""
    by_topic: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    for path in pages():
        if line := described(path):
            title, topic, date, status = line
            note = "" if status == "Holds" else f"; {status[0].lower()}{status[1:]}"
            by_topic[topic].append(f"- [{int(path.name[:4])}]({path.name}) {title} ({date}{note})\n")
    return HEAD + "".join(f"\n## {topic}\n\n{''.join(lines)}" for topic, lines in by_topic.items() if lines)


if __name__ == "__main__":
    check = "--check" in sys.argv
    missing = [path for path in pages() if described(path) is None]
    if not check:
        for path in missing:
            today = datetime.date.today().isoformat()
            path.write_text(with_line(path.read_text(encoding="utf-8"), TOPICS[-1], today), encoding="utf-8")
            print(f"{path.name}: choose one of {TOPICS}")
        INDEX.write_text(index(), encoding="utf-8")
    elif missing or INDEX.read_text(encoding="utf-8") != index():
        sys.exit(f"run python docs/decisions.py: {[path.name for path in missing] or 'index.md'}")
