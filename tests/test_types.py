"""What users write is typed: examples and recipes pass ``mypy --strict``, and public calls return more than ``Any``.

Torch's own untyped functions may be called, and what its modules return, which torch declares as anything, may be
returned; recipes' functions have no annotations, as in a notebook, and are checked inside, as pyproject.toml says.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.versions import has_torch

pytest.importorskip("mypy")
ROOT = Path(__file__).parents[1]
STRICT = ["--strict", "--untyped-calls-exclude=torch", "--no-warn-return-any", "--allow-subclassing-any"]

CALLS = {
    "g.ndata['x']": "TensorOrDict",
    "g.edata['w']": "TensorOrDict",
    "g.nodes['_N'].data['x']": "Tensor",
    "g.edges()": "tuple[Tensor, Tensor]",
    "g.edges(form='eid')": "Tensor",
    "g.in_edges(0, form='all')": "tuple[Tensor, Tensor, Tensor]",
    "g.in_degrees()": "Tensor",
    "g.in_degrees(0)": "int",
    "g.has_nodes([0])": "Tensor",
    "g.edge_ids(0, 1)": "int",
    "g.edge_ids([0], [1])": "Tensor",
    "g.device": "device",
    "g.to('cpu')": "DGLGraph",
    "g.subgraph([0])": "DGLGraph",
    "g.adj()": "SparseMatrix",
    "h['follows']": "DGLGraph",
    "g.update_all(fn.copy_u('x', 'm'), fn.sum('m', 'y'))": "None",
    "nn.GraphConv(4, 2)(g, x)": "Tensor",
    "nn.SAGEConv(4, 2, 'mean')(g, x)": "Tensor",
    "nn.GATConv(4, 2, 2)(g, g.ndata['x'])": "Tensor",
    "nn.GATConv(4, 2, 2)(g, x, get_attention=True)": "tuple[Tensor, Tensor]",
    "nn.EGATConv(4, 4, 2, 2, 1)(g, x, x)": "tuple[Tensor, ...]",
    "nn.HeteroGraphConv({})(h, h.ndata['x'])": "dict[str, Tensor]",
    "nn.AvgPooling()(g, x)": "Tensor",
    "nn.Set2Set(4, 2, 1)(g, x)": "Tensor",
    "dynamic.lazy(x)": "LazyTensor",
    "next(iter(DataLoader(g, x, NeighborSampler([2]))))": "tuple[TensorOrDict, TensorOrDict, list[DGLGraph]]",
    "next(iter(DataLoader(g, x, ClusterGCNSampler(g, 2))))": "DGLGraph",
    "next(iter(DataLoader(g, x, edges)))": "tuple[TensorOrDict, DGLGraph, list[DGLGraph]]",
    "dgl.mean_nodes(g, 'x')": "Tensor",
    "dgl.topk_nodes(g, 'x', 1)": "tuple[Tensor, Tensor]",
    "dgl.sampling.sample_neighbors(g, [0], 2)": "DGLGraph",
    "dgl.sampling.random_walk(g, [0], length=2)[0]": "Tensor",
    "dgl.sampling.node2vec_random_walk(g, [0], 1, 1, 2)": "Tensor",
    "dgl.to_block(g)": "DGLGraph",
    "dgl.batch([g])": "DGLGraph",
    "dgl.unbatch(g)": "list[DGLGraph]",
    "dgl.to_simple(g)": "DGLGraph",
    "dgl.to_simple(g, writeback_mapping=True)": "tuple[DGLGraph, TensorOrDict]",
    "dgl.compact_graphs([g])": "list[DGLGraph]",
    "dgl.to_homogeneous(h)": "DGLGraph",
    "dgl.khop_in_subgraph(g, 0, 1)": "tuple[DGLGraph, TensorOrDict]",
    "dgl.lap_pe(g, 1)": "Tensor",
    "dgl.shortest_dist(g)": "Tensor",
    "dgl.radius_graph(x, 1.0)": "DGLGraph",
    "dgl.ops.edge_softmax(g, x)": "Tensor",
    "dgl.ops.u_dot_v(g, x, x)": "Tensor",
    "dgl.sparse.spmatrix(x) @ x": "Tensor",
    "dgl.sparse.spmatrix(x).T": "SparseMatrix",
    "dgl.data.CoraGraphDataset()[0]": "DGLGraph",
    "dgl.data.GINDataset('MUTAG', False)[0]": "tuple[DGLGraph, Tensor]",
    "dgl.data.TUDataset('PROTEINS')[0]": "tuple[DGLGraph, Tensor]",
    "next(iter(GraphDataLoader([g, g], batch_size=2)))": "DGLGraph",
    "next(iter(GraphDataLoader([(g, 1)], shuffle=True)))": "tuple[DGLGraph, Tensor]",
    "next(iter(GraphDataLoader(dgl.data.TUDataset('PROTEINS'))))": "tuple[DGLGraph, Tensor]",
    "next(iter(GraphDataLoader([g], len)))": "int",
    "Height(1)(g, x)": "TensorOrTuple",
    "Height(1)(g, x)[0]": "Tensor",
    "Height(1).gather(0)": "State",
    "Height(1).gather(0).h": "Tensor",
    "Height(1).gather_all().sum()": "State",
    "dgl.sparse.matmul(dgl.sparse.identity((3, 3)), x)": "Tensor",
    "dgl.sparse.matmul(dgl.sparse.identity((3, 3)), dgl.sparse.identity((3, 3)))": "SparseMatrix",
    "dgl.to_pandas(g)[0]": "TableOrDict",
}
"""Expressions over the names of ``PREAMBLE``, and their types."""

PREAMBLE = """import torch
import dglite as dgl
from dglite import dynamic, function as fn, nn
from dglite.dataloading import ClusterGCNSampler, DataLoader, GraphDataLoader, NeighborSampler
from dglite.dataloading import as_edge_prediction_sampler
g = dgl.graph(([0, 1], [1, 2]))
h = dgl.heterograph({("user", "follows", "user"): ([0], [1])})
x = torch.ones(3, 4)
edges = as_edge_prediction_sampler(NeighborSampler([2]))
class Height(dynamic.VertexFunction): ...
"""


@pytest.mark.skipif(not has_torch("2.7"), reason="torch 2.4 has incomplete annotations")
def test_what_users_write_is_typed(tmp_path: Path) -> None:
    """One run of mypy, which reads dglite and torch once, for all."""
    examples = sorted((ROOT / "examples").glob("*.py"))
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "__init__.py").touch()
    for page in (ROOT / "docs" / "recipes").glob("*.md"):
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        (tmp_path / "recipes" / f"{page.stem}.py").write_text("\n".join(blocks), encoding="utf-8")
    recipes = sorted((tmp_path / "recipes").glob("*.py"))
    calls = tmp_path / "calls.py"
    calls.write_text(PREAMBLE + "\n".join(f"reveal_type({call})" for call in CALLS), encoding="utf-8")

    message = checked([*examples, *recipes, calls])
    assert examples and recipes and ": error:" not in message, message
    revealed = [re.sub(r"\b\w+\.(?=\w)", "", text) for text in re.findall(r'Revealed type is "(.*)"', message)]
    assert dict(zip(CALLS, revealed, strict=True)) == CALLS, message


def checked(files: list[Path]) -> str:
    """Return what mypy says of files, without what it says of dglite itself."""
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent"]
    command += ["--cache-dir=.mypy_cache/strict", *STRICT, *map(str, files)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode < 2 and not result.stderr, result.stderr
    return result.stdout
