"""Train with torch, answer without it: weights go through a file to a process that has NumPy only.

    python examples/numpy_inference.py
    python examples/numpy_inference.py --folder deployed     keep the files

A two-layer GCN is trained on Cora. Its weights are saved as safetensors, the graph and its words in dglite's format.
Then this script starts itself again with DGLITE_BACKEND=numpy: the same model, written once with
`dglite.backend.framework`, loads both and returns the logits of all papers. torch is not imported there, and need not
be installed. The logits are those of torch up to rounding.

Papers are downloaded unless --raw-dir or DGLITE_DATA_DIR names a folder that has the files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

import dglite
from dglite.backend import framework
from dglite.data import CoraGraphDataset
from dglite.nn import GraphConv, load_state_dict, save_state_dict

nn = framework.nn
F = framework.nn.functional
Tensor = framework.Tensor
HIDDEN = 16


class GCN(nn.Module):
    """Two graph convolutions."""

    def __init__(self, in_feats: int, num_classes: int) -> None:
        super().__init__()
        self.first = GraphConv(in_feats, HIDDEN, activation=F.relu)
        self.second, self.dropout = GraphConv(HIDDEN, num_classes), nn.Dropout(0.5)

    def forward(self, graph: dglite.DGLGraph, x: Tensor) -> Tensor:
        return self.second(graph, self.dropout(self.first(graph, self.dropout(x))))


def train(graph: dglite.DGLGraph, num_classes: int, epochs: int) -> GCN:
    """Return a model that was trained on the labelled papers."""
    feat, label = graph.ndata["feat"], graph.ndata["label"]
    labelled = framework.nonzero(graph.ndata["train_mask"]).flatten()
    model = GCN(feat.shape[1], num_classes)
    optimizer = framework.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in (progress := tqdm(range(epochs), unit="epoch", disable=None)):
        loss = F.cross_entropy(model(graph, feat)[labelled], label[labelled])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
    return model


def predict(model: GCN, graph: dglite.DGLGraph) -> np.ndarray:
    """Return the logits of all papers, (num_nodes, num_classes)."""
    model.eval()
    with framework.no_grad():
        return model(graph, graph.ndata["feat"]).numpy()


def infer(folder: Path) -> None:
    """Load graph and weights from a folder, write the logits to it."""
    begin = time.perf_counter()
    (graph,), _ = dglite.load_graphs(folder / "graph.dgl")
    weights = load_state_dict(folder / "weights.safetensors")
    model = GCN(graph.ndata["feat"].shape[1], len(weights["second.bias"]))
    model.load_state_dict(weights)
    np.save(folder / "logits.npy", predict(model, graph))
    if "torch" in sys.modules:
        sys.exit("torch was imported")
    print(f"{dglite.backend.name} backend, no torch: loaded and predicted in {time.perf_counter() - begin:.2f} s")


def main() -> None:
    """Train, deploy, compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--raw-dir", help="folder with Cora's files; default: DGLITE_DATA_DIR, else downloaded")
    parser.add_argument("--epochs", type=int, default=200, help="passes over the training data; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers; default: %(default)s")
    parser.add_argument("--folder", type=Path, help="where files are kept; default: a temporary folder")
    parser.add_argument("--infer", action="store_true", help="only load from the folder and predict")
    parser.add_argument("--expect", type=float, metavar="ACCURACY", help="fail when that of NumPy's logits is below")
    arguments = parser.parse_args()
    if arguments.infer:
        infer(arguments.folder)
        return

    framework.manual_seed(arguments.seed)
    dataset = CoraGraphDataset(raw_dir=arguments.raw_dir)
    graph = dglite.add_self_loop(dglite.remove_self_loop(dataset[0]))
    model = train(graph, dataset.num_classes, arguments.epochs)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        dglite.save_graphs(folder / "graph.dgl", graph)
        save_state_dict(model.state_dict(), folder / "weights.safetensors")
        command = [sys.executable, __file__, "--infer", "--folder", str(folder)]
        printed = subprocess.run(
            command, env={**os.environ, "DGLITE_BACKEND": "numpy"}, check=True, stdout=subprocess.PIPE, text=True
        )
        print(printed.stdout, end="")
        logits = np.load(folder / "logits.npy")

    ours, label, test = predict(model, graph), graph.ndata["label"].numpy(), graph.ndata["test_mask"].numpy()
    accuracies = [(x.argmax(1) == label)[test].mean() for x in (ours, logits)]
    for name, accuracy in zip((dglite.backend.name, "numpy"), accuracies, strict=True):
        print(f"{name}: test accuracy {accuracy:.3f}")
    print(f"logits differ by at most {abs(ours - logits).max():.1e}")
    if not np.allclose(ours, logits, rtol=1e-3, atol=1e-4):
        sys.exit("expected the same logits")
    if arguments.expect is not None and accuracies[1] < arguments.expect:
        sys.exit(f"expected a test accuracy of at least {arguments.expect}, got {accuracies[1]:.3f}")


if __name__ == "__main__":
    main()
