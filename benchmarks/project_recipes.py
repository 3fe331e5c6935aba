"""What ``projects.py`` runs: for each code base where it is, what it needs, its tests, and a training step of some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["RECIPES", "Recipe"]


@dataclass(frozen=True)
class Recipe:
    """How the tests of one code base are run, and what they say about ``dgl``."""

    name: str
    """Of the checkout's folder."""
    repository: str
    revision: str
    needs: tuple[str, ...]
    """Requirements for pip, beside torch, pytest and dgl."""
    note: str
    """Which tests these are, what is left out and why."""
    tests: tuple[str, ...] = ()
    """Arguments of pytest, none where a code base has no tests that use ``dgl``."""
    folder: str = ""
    """Where pytest is started, in the folder of all checkouts."""
    paths: tuple[str, ...] = ()
    """Folders to import from, in the folder of all checkouts."""
    without: tuple[str, ...] = ()
    """Modules that are imported and not needed: empty ones take their places."""
    first: str = ""
    """Statements to run before pytest, where a code base asks for names that other packages have dropped."""
    environment: Mapping[str, str] = field(default_factory=dict)
    step: str = ""
    """Statements that print ``value NUMBER``, the same with both libraries, and define ``step()``, which is timed."""


_PLAIN = "-c", "/dev/null", "--rootdir", "."
"""Leaves out a project's own options for pytest, which ask for plugins."""
_GITHUB = "https://github.com"

_SE3_STEP = """
import torch, dgl
from se3_transformer.model import SE3Transformer
from se3_transformer.model.fiber import Fiber
torch.manual_seed(0)
u, v = torch.randint(200, (2, 3000))
g = dgl.graph((u, v), num_nodes=200)
g.edata["rel_pos"] = torch.randn(3000, 3)
x = {"0": torch.randn(200, 32, 1), "1": torch.randn(200, 32, 3)}
fibers = dict(fiber_in=Fiber({0: 32, 1: 32}), fiber_hidden=Fiber.create(2, 16), fiber_out=Fiber({0: 1}))
model = SE3Transformer(num_layers=2, **fibers, fiber_edge=Fiber({}), num_heads=4, channels_div=2)
def step():
    model.zero_grad()
    loss = sum(y.square().mean() for y in model(g, x, {}).values())
    loss.backward()
    return loss
print("value", step().item())
"""

_RGAT_STEP = """
import types, torch, dgl
from dgl_utilities import components
torch.manual_seed(0)
sizes = {"paper": 3000, "author": 2000, "institute": 200, "fos": 500, "conference": 100, "journal": 100}
edges = {}
for a, name, b in [("paper", "cites", "paper"), ("paper", "written_by", "author"), ("paper", "topic", "fos"),
                   ("author", "affiliated_to", "institute"), ("paper", "published", "journal"),
                   ("paper", "venue", "conference")]:
    src, dst = torch.randint(sizes[a], (9000,)), torch.randint(sizes[b], (9000,))
    edges[a, name, b] = src, dst
    if a != b:
        edges[b, f"rev_{name}", a] = dst, src
labels = torch.randint(5, (3000,))
structure = types.SimpleNamespace(edge_dict=edges, separate_sampling_aggregation=False, label=labels)
features = types.SimpleNamespace(feature={name: torch.randn(size, 64) for name, size in sizes.items()})
g = components.build_graph(structure, "dgl", features=features)
model = components.RGAT("dgl", "cpu", g, in_feats=64, h_feats=64, num_classes=5, num_layers=2, n_heads=4)
draws = torch.Generator().manual_seed(0)
for _, parameter in sorted(model.named_parameters()):
    parameter.data = torch.randn(parameter.shape, generator=draws) * 0.1
model.eval()
batches = components.get_loader(g, torch.arange(512), "1000,1000", "dgl", use_pyg_sampler=False, batch_size=512,
                                shuffle=False, drop_last=False)
def step():
    model.zero_grad()
    for batch in batches:
        logits, labels = model(batch, "cpu", None)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        loss.backward()
    return loss
print("value", step().item())
"""

_ALIGNN_STEP = """
import glob, torch, dgl
torch.set_default_dtype(torch.float64)  # its radial basis is of float64 with NumPy 2, whatever the features are
from jarvis.core.atoms import Atoms
from alignn.graphs import Graph
from alignn.models.alignn import ALIGNN, ALIGNNConfig
files = sorted(glob.glob("alignn/examples/sample_data/*.vasp"))[:8]
pairs = [Graph.atom_dgl_multigraph(Atoms.from_poscar(file), atom_features="cgcnn") for file in files]
lattices = torch.stack([torch.tensor(Atoms.from_poscar(file).lattice_mat) for file in files])
g, lg = dgl.batch([pair[0] for pair in pairs]), dgl.batch([pair[1] for pair in pairs])
torch.manual_seed(0)
model = ALIGNN(ALIGNNConfig(name="alignn", atom_input_features=92, hidden_features=64, embedding_features=32))
def step():
    model.zero_grad()
    loss = model((g, lg, lattices)).square().mean()
    loss.backward()
    return loss
print("value", step().item())
"""

_LIFESCI_STEP = """
import torch, dgl
from dgllife.model import AttentiveFPPredictor
from dgllife.utils import AttentiveFPAtomFeaturizer, AttentiveFPBondFeaturizer, smiles_to_bigraph
nodes, bonds = AttentiveFPAtomFeaturizer(), AttentiveFPBondFeaturizer(self_loop=True)
smiles = ["CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "CC(C)Cc1ccc(cc1)C(C)C(=O)O", "c1ccc2ccccc2c1"] * 16
graphs = [smiles_to_bigraph(s, add_self_loop=True, node_featurizer=nodes, edge_featurizer=bonds) for s in smiles]
g = dgl.batch(graphs)
torch.manual_seed(0)
model = AttentiveFPPredictor(nodes.feat_size("h"), bonds.feat_size("e"), graph_feat_size=64)
def step():
    model.zero_grad()
    loss = model(g, g.ndata["h"], g.edata["e"]).square().mean()
    loss.backward()
    return loss
print("value", step().item())
"""

_CHGNET_STEP = """
import torch
from matgl.ext.pymatgen import Structure2Graph, get_element_list
from matgl.models._chgnet import CHGNet
from pymatgen.core import Lattice, Structure
cell = Structure.from_spacegroup("Pm-3m", Lattice.cubic(4.04), ["Li", "O"], [[0, 0, 0], [0.5, 0.5, 0.5]]) * (2, 2, 2)
elements = get_element_list([cell])
g, lattice, _ = Structure2Graph(element_types=elements, cutoff=5.0).get_graph(cell)
g.edata["pbc_offshift"] = torch.matmul(g.edata["pbc_offset"], lattice[0])
g.ndata["pos"] = g.ndata["frac_coords"] @ lattice[0]
torch.manual_seed(0)
model = CHGNet(element_types=elements, is_intensive=False)
def step():
    model.zero_grad()
    energy = model(g=g).sum()
    energy.backward()
    return energy
print("value", step().item())
"""

_DANCE_STEP = """
import numpy as np, torch, dgl
from anndata import AnnData
from dance.data import Data
from dance.modules.single_modality.cell_type_annotation.scdeepsort import GNN
from dance.transforms.graph import PCACellFeatureGraph
np.random.seed(0)
torch.manual_seed(0)
counts = np.random.poisson(0.3, (200, 100)).astype(np.float32) + np.eye(200, 100, dtype=np.float32)
data = Data(AnnData(counts), train_size="all")
PCACellFeatureGraph(n_components=20, split_name="train")(data)
g = data.data.uns["CellFeatureGraph"]
model = GNN(20, 4, 32, 2, 100)
sampler = dgl.dataloading.NeighborSampler([-1, -1], edge_dir="in")
g.ndata["id"] = g.ndata["cell_id"].long()
batches = dgl.dataloading.DataLoader(g, torch.arange(100, 300), sampler, batch_size=200)
def step():
    model.zero_grad()
    for _, _, blocks in batches:
        loss = model(blocks, blocks[0].srcdata["features"].float()).square().mean()
        loss.backward()
    return loss
print("value", step().item())
"""

RECIPES = (
    Recipe(
        "rfdiffusion",
        f"{_GITHUB}/RosettaCommons/RFdiffusion",
        "86507b6",
        ("e3nn",),
        "the tests of its SE3Transformer; NVTX ranges are empty ones",
        ("tests",),
        folder="rfdiffusion/env/SE3Transformer",
        first="import contextlib, torch.cuda.nvtx as n; n.range = lambda *_, **__: contextlib.nullcontext()",
        paths=("rfdiffusion/env/SE3Transformer",),
        step=_SE3_STEP,
    ),
    Recipe(
        "mlperf",
        f"{_GITHUB}/mlcommons/inference",
        "b66003e1",
        ("torch_geometric",),
        "R-GAT has no tests; the step samples 512 papers of a generated graph of its schema and trains on them",
        folder="mlperf/graph/R-GAT",
        paths=("mlperf/graph/R-GAT",),
        step=_RGAT_STEP,
    ),
    Recipe(
        "alignn",
        f"{_GITHUB}/usnistgov/alignn",
        "a8be0be",
        ("jarvis-tools", "ase", "lmdb", "pydantic-settings", "scikit-learn", "matplotlib", "spglib"),
        "tests of force fields and forces; those that fail with both need the network. Its tests of training fail with "
        "both on NumPy 2, whose float64 numbers make the radial basis one of float64; the step is in float64",
        (*_PLAIN, "alignn/tests/test_alignn_ff.py", "alignn/tests/test_force_reduction.py"),
        folder="alignn",
        paths=("alignn",),
        environment={"MPLBACKEND": "agg"},
        step=_ALIGNN_STEP,
    ),
    Recipe(
        "matgl",
        f"{_GITHUB}/materialsvirtuallab/matgl",
        "v1.3.0",
        ("pymatgen", "ase", "lightning", "torchdata", "maggma", "pyarrow", "boto3"),
        "version 1.3.0, the last with DGL: tests of graphs and layers; the step is CHGNet's, on LiO",
        (*_PLAIN, "--continue-on-collection-errors", "tests/graph", "tests/layers"),
        folder="matgl",
        paths=("matgl/src",),
        step=_CHGNET_STEP,
    ),
    Recipe(
        "dgl-lifesci",
        f"{_GITHUB}/awslabs/dgl-lifesci",
        "be8bc71",
        ("rdkit", "hyperopt", "scikit-learn", "pandas", "joblib", "networkx"),
        "tests of models and utilities; those that fail with both need the network or older NumPy and SciPy",
        ("../tests/model", "../tests/utils"),
        folder="dgl-lifesci/python",
        paths=("dgl-lifesci/python",),
        step=_LIFESCI_STEP,
    ),
    Recipe(
        "deepchem",
        f"{_GITHUB}/deepchem/deepchem",
        "fbe3b911a",
        ("rdkit", "scikit-learn", "pandas", "h5py", "flaky", "python-dotenv"),
        "tests of its models on dgl and dgl-lifesci, and of graph data; those that read data from the network fail, "
        "and most of these are left out",
        (
            *_PLAIN,
            "-k",
            "not regression and not classification and not lcnn and not cgcnn",
            *(f"deepchem/models/tests/test_{name}.py" for name in "gat pna pagtn mpnn gcn attentivefp gnn3d".split()),
            "deepchem/models/torch_models/tests/test_se3_transformer.py",
            "deepchem/utils/test/test_equivariance_utils.py",
            "deepchem/feat/tests/test_graph_data.py",
        ),
        folder="deepchem",
        paths=("deepchem", "dgl-lifesci/python"),
    ),
    Recipe(
        "openff-nagl",
        f"{_GITHUB}/openforcefield/openff-nagl",
        "fd41d2b",
        ("acellera-openff-toolkit", "acellera-openff-nagl-models", "rdkit", "pytorch-lightning", "pyarrow"),
        "tests of molecules, of its convolutions, pooling and post-processing; others need fixtures of a conda package",
        tuple(
            f"openff/nagl/tests/{name}"
            for name in ("molecule", "nn/gcn", "nn/test_pooling.py", "nn/test_postprocess.py")
        ),
        folder="openff-nagl",
        paths=("openff-nagl",),
    ),
    Recipe(
        "openhgnn",
        f"{_GITHUB}/BUPT-GAMMA/OpenHGNN",
        "efc3923",
        ("ogb", "optuna", "rdflib", "colorama", "igraph", "lmdb", "ordered_set", "tensorboard", "geomloss"),
        "tests that need no downloaded data set; DGL fails at those of sparse matrices, which need a C++ library "
        "that it has not for this torch",
        (
            *_PLAIN,
            "--continue-on-collection-errors",
            "tests/test_hgsketch.py",
            "tests/test_RelGT.py",
            "tests/dataset/test_adapter.py",
            "tests/dataset/test_utils.py",
            "openhgnn/sampler/test_mp2vec_sampler.py",
        ),
        folder="openhgnn",
        paths=("openhgnn",),
    ),
    Recipe(
        "dance",
        f"{_GITHUB}/OmicsML/dance",
        "c4023309",
        (
            "scanpy",
            "deprecated",
            "mudata",
            "omegaconf",
            "statsmodels",
            "pyro-ppl",
            "igraph",
            "pot",
            "opencv-python-headless",
            "KDEpy",
        ),
        "tests of transforms, data and registry, which import dgl and hardly use it; the step is scDeepSort's "
        "on random cells",
        (
            *_PLAIN,
            "--continue-on-collection-errors",
            "tests/transforms",
            "tests/data",
            "tests/utils",
            "tests/test_registry.py",
        ),
        folder="dance",
        first="import scipy.sparse, sklearn.utils; sklearn.utils.issparse = scipy.sparse.issparse",
        without=("torch_sparse", "tifffile", "efficientnet_pytorch", "torchvision", "skimage"),
        paths=("dance",),
        step=_DANCE_STEP,
    ),
    Recipe(
        "pygraphistry",
        f"{_GITHUB}/graphistry/pygraphistry",
        "f6edc1483",
        ("pandas", "pyarrow", "scikit-learn", "umap-learn", "skrub", "squarify"),
        "tests of its DGL graphs",
        ("graphistry/tests/test_dgl_utils.py",),
        folder="pygraphistry",
        paths=("pygraphistry",),
    ),
)
