"""Node classification of one type in a graph of several, from a folder, as DGL's examples/graphbolt/rgcn."""

import dgl.graphbolt as gb
import dgl.nn as dglnn
import numpy as np
import torch
import torch.nn.functional as F
import yaml


def write(folder, num=120):
    rng = np.random.default_rng(0)
    label = np.arange(num) % 3
    author = rng.integers(0, num, 4 * num)
    paper = np.where(rng.random(4 * num) < 0.8, author // 3 * 3 % num + author % 3, rng.integers(0, num, 4 * num))
    for name, ends in (("writes", (author, paper % num)), ("written", (paper % num, author))):
        np.save(folder / f"{name}.npy", np.stack(ends))
    x = np.eye(3, dtype=np.float32)[label] + rng.normal(size=(num, 3)).astype(np.float32)
    gb.numpy_save_aligned(folder / "paper.npy", x)
    np.save(folder / "author.npy", np.eye(3, dtype=np.float32)[label])
    splits = {"train_set": (0, 80), "validation_set": (80, 100), "test_set": (100, num)}
    for name, (first, last) in splits.items():
        np.save(folder / f"{name}.npy", np.arange(first, last))
        np.save(folder / f"{name}_labels.npy", label[first:last])
    data = lambda name: [  # noqa: E731
        {"name": "seeds", "format": "numpy", "path": f"{name}.npy"},
        {"name": "labels", "format": "numpy", "path": f"{name}_labels.npy"},
    ]
    types = {"author:writes:paper": "writes.npy", "paper:written:author": "written.npy"}
    feature = {"domain": "node", "name": "feat", "format": "numpy", "in_memory": False}
    described = {
        "dataset_name": "papers",
        "graph": {
            "nodes": [{"type": "paper", "num": num}, {"type": "author", "num": num}],
            "edges": [{"type": etype, "format": "numpy", "path": path} for etype, path in types.items()],
        },
        "feature_data": [{**feature, "type": ntype, "path": f"{ntype}.npy"} for ntype in ("paper", "author")],
        "tasks": [
            {"name": "node_classification", "num_classes": 3}
            | {name: [{"type": "paper", "data": data(name)}] for name in splits}
        ],
    }
    (folder / "metadata.yaml").write_text(yaml.safe_dump(described))


def main(root):
    torch.manual_seed(0)
    gb.seed(2)
    (root / "papers-seeds").mkdir()
    write(root / "papers-seeds")
    dataset = gb.BuiltinDataset("papers", root=root).load()
    graph, features, task = dataset.graph, dataset.feature, dataset.tasks[0]
    etypes = [gb.etype_str_to_tuple(etype) for etype in graph.edge_type_to_id]
    keys = {"paper": ["feat"], "author": ["feat"]}
    features = gb.BasicFeatureStore({key: gb.cpu_cached_feature(features[key], 1000, policy="lru") for key in features})

    def loader(items, shuffle):
        datapipe = gb.ItemSampler(items, batch_size=16, shuffle=shuffle).copy_to("cpu")
        datapipe = datapipe.sample_neighbor(graph, [6, 6], overlap_fetch=False)
        return gb.DataLoader(datapipe.fetch_feature(features, keys), num_workers=1)

    layers = torch.nn.ModuleList(
        dglnn.HeteroGraphConv({e[1]: dglnn.SAGEConv(i, o, "mean") for e in etypes}) for i, o in ((3, 16), (16, 3))
    )
    own = torch.nn.Linear(3, 3)
    opt = torch.optim.Adam([*layers.parameters(), *own.parameters()], lr=0.02)

    def logits(data):
        x = {ntype: data.node_features[(ntype, "feat")] for ntype in data.blocks[0].srctypes}
        h = x
        for layer, block in zip(layers, data.blocks, strict=True):
            h = {ntype: F.relu(value) if layer is layers[0] else value for ntype, value in layer(block, h).items()}
        return h["paper"] + own(x["paper"][: len(h["paper"])])

    for _ in range(8):
        for data in loader(task.train_set, True):
            loss = F.cross_entropy(logits(data), data.labels["paper"])
            opt.zero_grad()
            loss.backward()
            opt.step()
    results = [(logits(data).argmax(1) == data.labels["paper"]).float() for data in loader(task.test_set, False)]
    return torch.cat(results).mean().item()
