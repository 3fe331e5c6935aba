"""The page of the architecture is true: its files and functions exist, and calls run through them in its order."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

PLACE = re.compile(r"`([\w/]+\.py)` `(\w+)`")


def names_in(path: Path) -> set[str]:
    """Return the functions, methods and classes that a file defines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize("page", ["architecture.md", "glossary.md", "contributing.md"])
def test_files_and_functions_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    text = re.sub(r"^(?:`[^`]+`:\n\n)?```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)  # and titles of code
    paths = [path for path in re.findall(r"`((?:\w+/)+\w*(?:\.\w+)?)`", text) if not re.search("NAME|TOPIC", path)]
    assert paths
    missing = [path for path in paths if not (ROOT / "dglite" / path).exists() and not (ROOT / path).exists()]
    assert not missing, f"docs/{page} names what does not exist: {missing}"
    places = PLACE.findall(text)
    strangers = [place for place in places if place[1] not in names_in(ROOT / "dglite" / place[0])]
    assert not strangers, f"docs/{page} names functions that do not exist: {strangers}"


def test_the_picture_and_the_table_are_those_of_the_imports() -> None:
    script = ROOT / "docs" / "pictures" / "architecture.py"
    run = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


WATCH = """
import json, sys, threading
calls, seen = [], set()
def watch(frame, event, arg):
    place = frame.f_code.co_filename.replace("\\\\", "/").rpartition("/dglite/")
    if event == "call" and place[1]:
        call = place[2], frame.f_code.co_name
        if call not in seen:
            seen.add(call)
            calls.append(call)
def start():
    threading.setprofile(watch)
    sys.setprofile(watch)
def stop():
    sys.setprofile(None)
    print(json.dumps(calls))
"""

RUNS = {
    "update_all": """
import torch, dglite, dglite.function as fn
for reduce in fn.max, fn.sum:
    g = dglite.rand_graph(1000, 10000)
    g.ndata["h"] = torch.ones(1000, 16)
    if reduce is fn.sum:  # the other call has compiled what all row kernels share
        start()
    g.update_all(fn.copy_u("h", "m"), reduce("m", "out"))
stop()
""",
    "a batch": """
import torch, dglite
from dglite.dataloading import DataLoader, NeighborSampler
g = dglite.rand_graph(1000, 10000)
g.ndata["h"] = torch.ones(1000, 16)
sampler = NeighborSampler([10, 10], prefetch_node_feats=["h"])
loader = DataLoader(g, torch.arange(1000), sampler, batch_size=100, num_workers=1)
next(iter(loader))
start()
next(iter(loader))
stop()
""",
    "a layer": """
import numpy as np, dglite
from dglite.nn import GraphConv
g = dglite.add_self_loop(dglite.rand_graph(100, 1000))
layer = GraphConv(16, 4)
start()
layer(g, np.ones((100, 16), np.float32)).sum().backward()
stop()
""",
}


@pytest.mark.parametrize("name", RUNS)
def test_calls_run_through_the_files_in_order(name: str, tmp_path: Path) -> None:
    part = PAGE.split(f"<!-- calls of {name} -->")[1].split("<!-- end of calls -->")[0]
    # The first place of each line: what follows in parentheses is machine code, or a class.
    listed = [PLACE.search(line) for line in re.findall(r"^\d+\. .*$", part, re.MULTILINE)]
    expected = [match.groups() for match in listed if match]
    assert len(expected) == len(listed)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DGLITE_BACKEND": "numpy" if name == "a layer" else "torch",
    }
    if name == "update_all":
        environment["DGLITE_CACHE_DIR"] = str(tmp_path)  # empty: the compiler runs
    run = subprocess.run(
        [sys.executable, "-c", WATCH + RUNS[name]], env=environment, capture_output=True, text=True, check=True
    )
    calls = [tuple(call) for call in json.loads(run.stdout)]
    assert [place for place in expected if place not in calls] == []
    assert expected == sorted(expected, key=calls.index)
