"""What ``projects.py`` runs: for each code base where it is, what it needs and its tests.

A training step of some is in ``project_steps/NAME.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

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

    @property
    def step(self) -> str:
        """Code that prints ``value NUMBER``, the same with both libraries, and defines ``step()``, which is timed."""
        path = Path(__file__).with_name("project_steps") / f"{self.name.replace('-', '_')}.py"
        return path.read_text(encoding="utf-8") if path.exists() else ""


_PLAIN = "-c", "/dev/null", "--rootdir", "."
"""Leaves out a project's own options for pytest, which ask for plugins."""
_GITHUB = "https://github.com"
_PYTHONDS = "pythonds", "pythonds.basic", "pythonds.basic.stack"

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
    ),
    Recipe(
        "mlperf",
        f"{_GITHUB}/mlcommons/inference",
        "b66003e1",
        ("torch_geometric",),
        "R-GAT has no tests; the step samples 512 papers of a generated graph of its schema and trains on them",
        folder="mlperf/graph/R-GAT",
        paths=("mlperf/graph/R-GAT",),
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
    ),
    Recipe(
        "deepchem",
        f"{_GITHUB}/deepchem/deepchem",
        "fbe3b911a",
        ("rdkit", "scikit-learn", "pandas", "h5py", "flaky", "python-dotenv"),
        "tests of its models on dgl and dgl-lifesci, and of graph data, without those that read data from the network "
        "or train an SE(3)-Transformer of 15 GB",
        (
            *_PLAIN,
            "-k",
            "not regression and not classification and not lcnn and not cgcnn and not overfit "
            "and not transformer_equivariance and not transformer_save",
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
    Recipe(
        "espaloma",
        f"{_GITHUB}/choderalab/espaloma",
        "3360eba",
        ("acellera-openff-toolkit", "rdkit", "openmm", "importlib-resources"),
        "tests of its networks, geometry and graphs, without QCArchive and openmmforcefields, which three tests "
        "need; the others that fail with DGL need its C++ library of sparse matrices",
        (
            *_PLAIN,
            "--continue-on-collection-errors",
            "espaloma/nn",
            *(f"espaloma/mm/tests/test_{name}.py" for name in ("angle", "distance", "linear_combination")),
            "espaloma/graphs/tests/test_graph.py",
        ),
        folder="espaloma",
        paths=("espaloma",),
        without=("espaloma.data.qcarchive_utils", "openmmforcefields", "openmmforcefields.generators"),
    ),
    Recipe(
        "benchmarking-gnns",
        f"{_GITHUB}/graphdeeplearning/benchmarking-gnns",
        "b6c4077",
        ("networkx", "scipy"),
        "no tests; seven networks for nodes, edges and graphs, and helpers of its data sets; the step is an "
        "epoch of GatedGCN on generated graphs",
        folder="benchmarking-gnns",
        paths=("benchmarking-gnns",),
    ),
    Recipe(
        "san",
        f"{_GITHUB}/DevinKreuzer/SAN",
        "6e38329",
        ("networkx", "scipy", "ogb"),
        "no tests; the step trains on full graphs, with its positional encodings",
        folder="san",
        paths=("san",),
    ),
    Recipe(
        "graphmae",
        f"{_GITHUB}/THUDM/GraphMAE",
        "b14f080",
        ("tensorboardX", "pyyaml", "scikit-learn", "ogb"),
        "no tests; four encoders on a generated graph; the step masks and drops edges",
        folder="graphmae",
        paths=("graphmae",),
    ),
    Recipe(
        "hgb",
        f"{_GITHUB}/THUDM/HGB",
        "ca6fd5b",
        ("scikit-learn", "networkx"),
        "no tests; GAT and GCN of its benchmark of nodes; the step is Simple-HGN's",
        folder="hgb/NC/benchmark/methods/baseline",
        paths=("hgb/NC/benchmark/methods/baseline",),
    ),
    Recipe(
        "bwgnn",
        f"{_GITHUB}/squareRoot3/Rethinking-Anomaly-Detection",
        "de0631f",
        ("sympy", "scikit-learn"),
        "no tests; its training on a generated graph, and its models of types and of blocks",
        folder="bwgnn",
        paths=("bwgnn",),
    ),
    Recipe(
        "tgl",
        f"{_GITHUB}/amazon-science/tgl",
        "241b336",
        ("pandas", "scikit-learn"),
        "no tests; the step is TGAT's on generated blocks; its sampler is in C++ and does without dgl",
        folder="tgl",
        paths=("tgl",),
        without=("torch_scatter",),
    ),
    Recipe(
        "glnn",
        f"{_GITHUB}/snap-research/graphless-neural-networks",
        "80d0f8e",
        ("category_encoders", "scikit-learn", "ogb"),
        "no tests; its transductive and inductive training of GCN, GAT, APPNP and GraphSAGE on a generated graph",
        folder="glnn",
        paths=("glnn",),
    ),
    Recipe(
        "equibind",
        f"{_GITHUB}/HannesStark/EquiBind",
        "4cb1b4c",
        ("rdkit", "pandas", "pot", "biopython", "biopandas"),
        "no tests; the step is a layer's on generated ligands and receptors",
        folder="equibind",
        paths=("equibind",),
    ),
    Recipe(
        "graph4nlp",
        f"{_GITHUB}/graph4ai/graph4nlp",
        "c5b6513",
        ("nltk", "pyyaml"),
        "its tests need servers and word vectors; GCN, GAT, GGNN and GraphSAGE in three directions on generated graphs",
        folder="graph4nlp",
        paths=("graph4nlp",),
        without=("stanfordcorenlp", "torchtext", "torchtext.vocab", *_PYTHONDS, "sacrebleu", "pyrouge"),
    ),
    Recipe(
        "gadbench",
        f"{_GITHUB}/squareRoot3/GADBench",
        "f9aa021",
        ("sympy", "scipy"),
        "no tests; the step trains nine of its networks on a generated graph",
        folder="gadbench",
        paths=("gadbench",),
    ),
    Recipe(
        "graphtransformer",
        f"{_GITHUB}/graphdeeplearning/graphtransformer",
        "c9cd493",
        ("networkx", "scipy"),
        "no tests; its transformers of graphs and of nodes, with Laplacian and Weisfeiler-Lehman encodings",
        folder="graphtransformer",
        paths=("graphtransformer",),
    ),
    Recipe(
        "gnn-lspe",
        f"{_GITHUB}/vijaydwivedi75/gnn-lspe",
        "6b38443",
        ("networkx", "scipy", "ogb"),
        "no tests; GatedGCN, PNA, SAN and GraphiT with learned positions, on sparse and full graphs",
        folder="gnn-lspe",
        paths=("gnn-lspe",),
    ),
    Recipe(
        "heterophilous-graphs",
        f"{_GITHUB}/yandex-research/heterophilous-graphs",
        "a431395",
        ("scikit-learn",),
        "no tests; its six networks on a generated graph",
        folder="heterophilous-graphs",
        paths=("heterophilous-graphs",),
    ),
    Recipe(
        "cca-ssg",
        f"{_GITHUB}/hengruizhang98/CCA-SSG",
        "ce5b2c0",
        ("numpy",),
        "no tests; three steps of its self-supervised training, on augmented graphs that are made edge by edge",
        folder="cca-ssg",
        paths=("cca-ssg",),
    ),
    Recipe(
        "grail",
        f"{_GITHUB}/kkteru/grail",
        "2a3dffa",
        ("scipy", "networkx"),
        "no tests; its classifiers of enclosing subgraphs, whose aggregators are functions of the mailbox",
        folder="grail",
        paths=("grail",),
    ),
    Recipe(
        "nars",
        f"{_GITHUB}/facebookresearch/NARS",
        "27850d3",
        ("ogb",),
        "no tests; features of subsets of relations, which make a graph each, and its classifier",
        folder="nars",
        paths=("nars",),
    ),
    Recipe(
        "gnn-recsys",
        f"{_GITHUB}/je-dbl/GNN-RecSys",
        "b60b3fb",
        ("pandas",),
        "no tests; an epoch of its six recommenders on batches of edges without the reverse ones; the seventh's LSTM "
        "depends on the order in which neighbours are sampled",
        folder="gnn-recsys",
        paths=("gnn-recsys",),
    ),
    Recipe(
        "rfa-gnn",
        f"{_GITHUB}/LirongWu/RFA-GNN",
        "f139650",
        ("scikit-learn",),
        "no tests; its networks for nodes, for graphs and for ZINC",
        folder="rfa-gnn/src",
        paths=("rfa-gnn/src",),
    ),
    Recipe(
        "3dinfomax",
        f"{_GITHUB}/HannesStark/3DInfomax",
        "5cd3262",
        ("ogb",),
        "no tests; a contrastive step of its networks of bonds and of coordinates",
        without=("torch.utils.tensorboard", "torch_scatter", "torch_sparse", "torch_geometric.nn.acts", "ot"),
        first="import collections.abc as c, collections; collections.MutableMapping = c.MutableMapping",
        folder="3dinfomax",
        paths=("3dinfomax",),
    ),
    Recipe(
        "lessr",
        f"{_GITHUB}/twchen/lessr",
        "39a21e3",
        ("pandas",),
        "no tests; recommends the next item of a session, whose graphs are made item by item",
        folder="lessr",
        paths=("lessr",),
    ),
    Recipe(
        "re-gcn",
        f"{_GITHUB}/Lee-zix/RE-GCN",
        "bc64211",
        ("tqdm", "pandas", "rdflib"),
        "no tests; predicts facts of a temporal knowledge graph from three days and a static graph",
        folder="re-gcn",
        paths=("re-gcn",),
        without=("rgcn.knowledge_graph",),
        first="import torch; torch.Tensor.cuda = lambda tensor, *_, **__: tensor",
    ),
    Recipe(
        "traffic",
        f"{_GITHUB}/mfauvell/traffic",
        "9545a4d",
        ("scipy",),
        "no tests; forecasts speeds on roads by diffusion convolutions in a recurrent network",
        folder="traffic",
        paths=("traffic/src",),
        without=tuple(
            f"traffic_graph.traffic_graph.{name}"
            for name in "data_loading graph_utils data_prepare data_transform train_utils config".split()
        ),
    ),
)
