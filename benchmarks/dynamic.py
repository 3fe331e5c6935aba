"""Tree-LSTM and Tree-FC in training: trees per second of vertex programs, DGL 2.1, message passing and plain torch.

python benchmarks/dynamic.py             a quarter of an hour
python benchmarks/dynamic.py --quick     small sizes

A step is forward, the loss of every node, backward, and plain gradient descent, on a batch that is joined already. All
run the same binary Tree-LSTM on the Stanford Sentiment Treebank (on random binary trees where it is not found). Vertex
programs find the order of the vertices anew in each step, as for batches that have not been seen before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import cycle
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from common import OURS, interleave, load_dgl, parser, save, table, timed
from torch import nn

import dglite
from dglite import DGLError, dynamic
from dglite.data import SSTDataset
from dglite.dynamic.order import order_of

DGL, MESSAGES, ONE_BY_ONE = "DGL 2.1", "dglite prop_nodes", "plain torch"
LIBRARIES = (OURS, MESSAGES, DGL, ONE_BY_ONE)
OPTIONS: dict[str, dict[str, bool]] = {
    "all": {},
    "no eager": {"eager": False},
    "no lazy": {"lazy": False},
    "no fusion": {"fuse": False},
    "none": {"eager": False, "lazy": False, "fuse": False},
}


# -- the same Tree-LSTM, four ways ----------------------------------------------------------------------------------
class Weights(nn.Module):
    """The parameters, and the formula of a batch of nodes."""

    def __init__(self, num_words: int, hidden: int) -> None:
        super().__init__()
        self.words = nn.Embedding(num_words, hidden, sparse=True)
        self.W, self.U = nn.Linear(hidden, 3 * hidden), nn.Linear(2 * hidden, 5 * hidden, bias=False)
        self.out, self.hidden = nn.Linear(hidden, 5), hidden

    def gates(self, iou: Any, f: Any, c_left: Any, c_right: Any) -> tuple[Any, Any]:
        """Return state and memory from what the gates get."""
        i, o, u = iou.chunk(3, 1)
        f_left, f_right = torch.sigmoid(f).chunk(2, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + f_left * c_left + f_right * c_right
        return torch.sigmoid(o) * torch.tanh(c), c

    def leaf(self, iou: Any) -> tuple[Any, Any]:
        """Return state and memory of nodes without children."""
        i, o, u = iou.chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c


class Vertex(dynamic.VertexFunction):
    """As a vertex program."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(state={"h": weights.hidden, "c": weights.hidden})
        self.weights = weights

    def forward(self) -> None:
        w, left, right = self.weights, self.gather(0), self.gather(1)
        iou, f = w.U(torch.cat([left.h, right.h], 1)).split([3 * w.hidden, 2 * w.hidden], 1)
        h, c = w.gates(w.W(self.pull()) + iou, f, left.c, right.c)
        self.scatter(h=h, c=c)
        self.push(h)


def forward_vertex(program: Vertex, g: Any, leaves: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return all states by the vertex program."""
    g.adjacency().cache.clear()
    return program(g, dynamic.Partial(leaves, program.weights.words(x)))


def forward_messages(library: ModuleType, weights: Weights, g: Any, leaves: torch.Tensor, x: torch.Tensor) -> Any:
    """Return all states by frontiers of messages, with dglite or with DGL."""
    size = weights.hidden
    iou = torch.zeros(g.num_nodes(), 3 * size).index_copy(0, leaves, weights.W(weights.words(x)))
    g.ndata["iou"], g.ndata["h"] = iou, torch.zeros(g.num_nodes(), size)
    g.ndata["c"], g.ndata["f"] = torch.zeros(g.num_nodes(), size), torch.zeros(g.num_nodes(), 2 * size)

    def message(edges: Any) -> dict[str, Any]:
        return {"h": edges.src["h"], "c": edges.src["c"]}

    def reduce(nodes: Any) -> dict[str, Any]:
        z = weights.U(nodes.mailbox["h"].flatten(1))
        f = torch.sigmoid(z[:, 3 * size :]).view(-1, 2, size)
        return {"iou": z[:, : 3 * size] + weights.W.bias, "c": (f * nodes.mailbox["c"]).sum(1)}

    def apply(nodes: Any) -> dict[str, Any]:
        i, o, u = nodes.data["iou"].chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + nodes.data["c"]
        return {"h": torch.sigmoid(o) * torch.tanh(c), "c": c}

    library.prop_nodes_topo(g, message, reduce, apply_node_func=apply)
    return g.ndata.pop("h")


def forward_one_by_one(weights: Weights, trees: list[list[list[int]]], words: Iterator[torch.Tensor]) -> torch.Tensor:
    """Return all states, node after node; each tree lists the children of its nodes, which come after their parents."""
    found = []
    for children in trees:
        states: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for node in reversed(range(len(children))):
            if children[node]:
                (h_left, c_left), (h_right, c_right) = (states[child] for child in children[node])
                iou, f = weights.U(torch.cat([h_left, h_right], 1)).split([3 * weights.hidden, 2 * weights.hidden], 1)
                states[node] = weights.gates(iou + weights.W.bias, f, c_left, c_right)
            else:
                states[node] = weights.leaf(weights.W(weights.words(next(words))))
        found += [states[node][0] for node in range(len(children))]
    return torch.cat(found)


# -- data ----------------------------------------------------------------------------------------------------------
def load_trees(count: int) -> tuple[list[dglite.DGLGraph], int, str]:
    """Return trees with words and labels, the number of words, and where they are from."""
    try:
        data = SSTDataset()
        return [data[i] for i in range(min(count, len(data)))], data.vocab_size, "Stanford Sentiment Treebank"
    except DGLError as error:
        print(f"random trees are used: {error}")
        return [random_tree(random.Random(i)) for i in range(count)], 1000, "random binary trees of 19 leaves"


def random_tree(generator: random.Random) -> dglite.DGLGraph:
    """Return a binary tree of 19 leaves in preorder, children after their parents."""
    parents, sizes = [-1], {0: 19}
    pending = [0]
    while pending:
        node = pending.pop()
        if sizes[node] > 1:
            left = generator.randrange(1, sizes[node])
            for size in (left, sizes[node] - left):
                sizes[len(parents)] = size
                pending.append(len(parents))
                parents.append(node)
    return labelled(parents, 1000)


def labelled(parents: list[int], num_words: int) -> dglite.DGLGraph:
    """Return a tree with random words at its leaves and random labels."""
    nodes = [node for node, parent in enumerate(parents) if parent >= 0]
    g = dglite.graph((nodes, [parents[node] for node in nodes]), num_nodes=len(parents))
    inner = g.in_degrees() > 0
    g.ndata["x"] = torch.where(inner, -1, torch.randint(num_words, (len(parents),)))
    g.ndata["y"] = torch.randint(5, (len(parents),))
    return g


def complete_tree(leaves: int) -> dglite.DGLGraph:
    """Return a complete binary tree, its root first."""
    return labelled([-1, *((node - 1) // 2 for node in range(1, 2 * leaves - 1))], 1000)


def children_of(g: dglite.DGLGraph) -> list[list[int]]:
    """Return the children of each node."""
    found: list[list[int]] = [[] for _ in range(g.num_nodes())]
    for child, parent in zip(*(end.tolist() for end in g.edges()), strict=True):
        found[parent].append(child)
    return found


# -- steps of training -----------------------------------------------------------------------------------------------
def training_step(weights: Weights, forward: Callable[[], torch.Tensor], labels: torch.Tensor) -> None:
    """Do one step of gradient descent."""
    loss = F.cross_entropy(weights.out(forward()), labels, reduction="sum")
    loss.backward()
    with torch.no_grad():
        for x in weights.parameters():
            if x.grad is not None:
                x.add_(x.grad, alpha=-1e-4)
                x.grad = None


def runners(
    trees: list[dglite.DGLGraph], batch_size: int, weights: Weights, names: tuple[str, ...], dgl: ModuleType | None
) -> dict[str, Callable[[], None]]:
    """Return what does one step with each library, on the next batch of its own round."""
    program, found = Vertex(weights), dict[str, Callable[[], None]]()
    groups = [trees[i : i + batch_size] for i in range(0, len(trees) - batch_size + 1, batch_size)]
    for name in names:
        if name == DGL and dgl is None:
            continue
        steps = []
        for group in groups:
            g = dglite.batch(group)
            leaves = torch.nonzero(g.ndata["x"] >= 0).flatten()
            x, y = g.ndata["x"][leaves], g.ndata["y"]
            if name == OURS:
                steps.append((lambda g=g, leaves=leaves, x=x: forward_vertex(program, g, leaves, x), y))
            elif name == MESSAGES:
                steps.append((lambda g=g, leaves=leaves, x=x: forward_messages(dglite, weights, g, leaves, x), y))
            elif name == DGL:
                assert dgl is not None
                other = dgl.graph(g.edges(), num_nodes=g.num_nodes())
                steps.append((lambda g=other, leaves=leaves, x=x: forward_messages(dgl, weights, g, leaves, x), y))
            else:
                shapes = [children_of(tree) for tree in group]
                steps.append((lambda s=shapes, group=group: forward_one_by_one(weights, s, words_of(group)), y))
        rounds = cycle(steps)
        found[name] = lambda rounds=rounds: training_step(weights, *next(rounds))
    return found


def words_of(group: list[dglite.DGLGraph]) -> Iterator[torch.Tensor]:
    """Yield the words in the order in which nodes are evaluated one by one."""
    for tree in group:
        words = tree.ndata["x"].flip(0)
        yield from words[words >= 0].split(1)


def gemm_rate(hidden: int) -> float:
    """Return the best rate of a product of the model's largest shape, in FLOP/s."""
    x, w, out = torch.randn(2048, 2 * hidden), torch.randn(2 * hidden, 5 * hidden), torch.empty(2048, 5 * hidden)
    return 2 * x.numel() * w.shape[1] / min(timed(lambda: torch.mm(x, w, out=out)) for _ in range(7))


def flops(trees: list[dglite.DGLGraph], hidden: int) -> float:
    """Return the arithmetic of the products of a step per tree: forward, and twice that backward."""
    nodes, leaves = (sum(count) / len(trees) for count in zip(*((t.num_nodes(), leaves_of(t)) for t in trees)))  # noqa: B905
    return 3 * 2 * hidden * hidden * (3 * leaves + 10 * (nodes - leaves)) + 3 * 2 * 5 * hidden * nodes


def leaves_of(tree: dglite.DGLGraph) -> int:
    """Return how many leaves a tree has."""
    return int((tree.in_degrees() == 0).sum())


def check(trees: list[dglite.DGLGraph], words: int) -> None:
    """Assert that all ways of writing the network give the same states."""
    weights, g, dgl = Weights(words, 16), dglite.batch(trees), load_dgl()
    leaves = torch.nonzero(g.ndata["x"] >= 0).flatten()
    x = g.ndata["x"][leaves]
    expected = forward_one_by_one(weights, [children_of(tree) for tree in trees], words_of(trees))
    others = [forward_vertex(Vertex(weights), g, leaves, x), forward_messages(dglite, weights, g, leaves, x)]
    if dgl is not None:
        others.append(forward_messages(dgl, weights, dgl.graph(g.edges(), num_nodes=g.num_nodes()), leaves, x))
    for other in others:
        torch.testing.assert_close(other, expected, rtol=1e-4, atol=1e-5)


# -- tables ----------------------------------------------------------------------------------------------------------
def tree_lstm(sizes: list[int], hiddens: list[int], trees: list[dglite.DGLGraph], words: int) -> list[dict[str, Any]]:
    """Measure trees per second of all libraries."""
    dgl, records = load_dgl(), []
    for hidden in hiddens:
        for size in sizes:
            weights = Weights(words, hidden)
            some = trees[: max(8 * size, 32)]
            ours = runners(some, size, weights, LIBRARIES, dgl)
            for run in ours.values():
                run()  # compiles: a peer is judged slow by its next call
            seconds = interleave(ours, slow_from=2.0)
            group = some[:size]
            batching = min(timed(lambda group=group: dglite.batch(group)) for _ in range(5))
            adjacency = dglite.batch(group).adjacency()
            scheduling = min(timed(lambda a=adjacency: (a.cache.clear(), order_of(a, None, 1))) for _ in range(5))
            rate = gemm_rate(hidden)
            records.append(
                {
                    "hidden": hidden,
                    "batch": size,
                    "trees_per_second": {name: size / s for name, s in seconds.items()},
                    "batching_share": batching / seconds[OURS],
                    "scheduling_share": scheduling / seconds[OURS],
                    "gemm_flops": rate,
                    "gemm_fraction": flops(some, hidden) * size / seconds[OURS] / rate,
                }
            )
            print(records[-1])
    return records


def ablation(size: int, hidden: int, trees: list[dglite.DGLGraph], words: int) -> dict[str, float]:
    """Measure trees per second with optimisations switched off."""
    weights = Weights(words, hidden)

    def under(switches: dict[str, bool]) -> Callable[[], None]:
        step = runners(trees[: 4 * size], size, weights, (OURS,), None)[OURS]

        def run() -> None:
            with dynamic.options(**switches):
                step()

        return run

    seconds = interleave({name: under(switches) for name, switches in OPTIONS.items()}, slow_from=60.0)
    return {name: size / s for name, s in seconds.items()}


def tree_fc(leaves: list[int], hidden: int, size: int) -> list[dict[str, Any]]:
    """Measure complete binary trees, the Tree-LSTM on them: the shape of the Cavs paper's Tree-FC."""
    records, dgl = [], load_dgl()
    for count in leaves:
        trees, weights = [complete_tree(count) for _ in range(size)], Weights(1000, hidden)
        seconds = interleave(runners(trees, size, weights, (OURS, DGL), dgl), slow_from=2.0)
        records.append({"leaves": count, "trees_per_second": {name: size / s for name, s in seconds.items()}})
        print(records[-1])
    return records


def trees_table(records: list[dict[str, Any]]) -> str:
    """Return one row per size of state and of batch."""
    names = [name for name in LIBRARIES if any(name in r["trees_per_second"] for r in records)]
    header = ["hidden, batch", *names, "x DGL", "of GEMM rate", "scheduling", "batching"]
    rows = []
    for r in records:
        speeds = r["trees_per_second"]
        ratio = f"{speeds[OURS] / speeds[DGL]:.1f}" if DGL in speeds else "-"
        shares = [f"{r[key]:.1%}" for key in ("gemm_fraction", "scheduling_share", "batching_share")]
        rows.append(
            [f"{r['hidden']}, {r['batch']}", *(f"{speeds.get(name, 0):,.0f}" for name in names), ratio, *shares]
        )
    return table(header, rows)


def ablation_table(ablated: dict[str, float]) -> str:
    """Return one row per set of switches."""
    rows = [[name, f"{speed:,.0f}", f"{speed / ablated['all']:.2f}"] for name, speed in ablated.items()]
    return table(["optimisations", "trees/s", "of all"], rows)


def complete_table(records: list[dict[str, Any]]) -> str:
    """Return one row per number of leaves."""
    rows = [[str(r["leaves"]), *(f"{s:,.1f}" for s in r["trees_per_second"].values())] for r in records]
    return table(["leaves", *records[0]["trees_per_second"]], rows)


def main() -> None:
    """Measure and save."""
    quick = parser(__doc__.split("\n")[0]).parse_args().quick
    sizes, hiddens = ([1, 8], [32]) if quick else ([1, 2, 4, 8, 16, 32, 64, 128, 256], [128, 256, 512])
    trees, words, source = load_trees(64 if quick else 2048)
    check(trees[:3], words)
    records = tree_lstm(sizes, hiddens, trees, words)
    ablated = ablation(8 if quick else 64, 32 if quick else 256, trees, words)
    complete = tree_fc([32] if quick else [32, 64, 128, 256, 512, 1024], 32 if quick else 256, 4 if quick else 64)
    print(f"\n{trees_table(records)}\n\n{ablation_table(ablated)}\n\n{complete_table(complete)}")
    if not quick:
        save("dynamic", {"data": source, "tree_lstm": records, "ablation": ablated, "complete_trees": complete})


if __name__ == "__main__":
    main()
