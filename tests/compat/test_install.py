"""Code written for DGL runs on dglite by an alias."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import dglite
from dglite.compat import install, uninstall

SCRIPT = """
    import sys
    import dgl
    import dgl.function as fn
    import torch
    from dgl.base import NID, DGLError
    from dgl.nn.pytorch import GATConv, GraphConv
    from dgl.nn.pytorch.conv import SAGEConv

    g = dgl.graph((torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])))
    g.ndata["h"] = torch.ones(3, 4)
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"))
    assert g.ndata["out"].sum() == 12
    assert GraphConv(4, 2)(g, g.ndata["h"]).shape == (3, 2)
    assert dgl.node_subgraph(g, [0, 1]).ndata[NID].tolist() == [0, 1]
    print(__name__, sys.argv)
"""


@pytest.fixture
def dgl_is_dglite():
    before = {name: module for name, module in sys.modules.items() if name == "dgl" or name.startswith("dgl.")}
    for name in before:
        del sys.modules[name]
    install()
    yield
    uninstall()
    sys.modules.update(before)


def test_a_script_runs_unmodified(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, "-m", "dglite.compat", str(script), "--epochs", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["__main__", f"['{script}',", "'--epochs',", "'3']"]


@pytest.mark.parametrize("arguments", [[], ["no such file.py"]])
def test_the_command_line_says_what_is_wrong(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dglite.compat", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0 and ("usage" in done.stderr or "no such file.py" in done.stderr)


def test_names_are_those_of_dglite(dgl_is_dglite) -> None:
    import dgl
    import dgl.ops
    from dgl import DGLGraph, function

    assert DGLGraph is dglite.DGLGraph and function.copy_u is dglite.function.copy_u
    assert dgl.ops.edge_softmax is dglite.ops.edge_softmax and "graph" in dir(dgl)
    assert dglite.__spec__.name == "dglite"


def test_what_is_missing_is_named(dgl_is_dglite) -> None:
    import dgl

    with pytest.raises(AttributeError, match=r"dglite has no dgl\.no_such_thing"):
        _ = dgl.no_such_thing
    with pytest.raises(ModuleNotFoundError, match=r"no counterpart of dgl\.geometry"):
        import dgl.geometry
    with pytest.raises(ImportError, match="no_such_thing"):
        from dgl import no_such_thing  # noqa: F401


def test_uninstall_gives_the_name_back() -> None:
    install()
    install()
    uninstall()
    assert not any(type(finder).__module__ == "dglite.compat" for finder in sys.meta_path)
