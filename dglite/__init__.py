"""Graph deep learning with DGL's programming model, in pure Python.

``import dglite as dgl`` is all that much DGL code needs. The names here are the public ones; the rest of the package
is reached through its modules: ``dglite.function``, ``dglite.ops``, ``dglite.nn``, ``dglite.data``,
``dglite.dataloading``, ``dglite.sampling``, ``dglite.transforms``, ``dglite.metrics``; and, imported when they are
first read, ``dglite.distributed``, ``dglite.dynamic``, ``dglite.tofu``, ``dglite.compat``, ``dglite.graphbolt``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .garbage import no_collection

with no_collection():
    from . import (
        backend,
        contrib,
        data,
        dataloading,
        function,
        geometry,
        hints,
        metrics,
        nn,
        ops,
        sampling,
        sparse,
        transforms,
    )
    from . import optim as optim  # not in __all__: a star import must not hide torch.optim
    from .backend import empty_cache, memory_summary
    from .batch import *  # noqa: F403 - these modules list their public names
    from .classic import *  # noqa: F403
    from .contrib.sampling import NodeFlow
    from .convert import *  # noqa: F403
    from .dataloading import inference
    from .dataloading.estimate import estimate
    from .errors import DGLError, DGLWarning
    from .frame import EID, ETYPE, NID, NTYPE
    from .generators import *  # noqa: F403
    from .graph import DGLGraph, to_tensors
    from .homophily import *  # noqa: F403
    from .io import from_pyg, hetero_from_shared_memory, load_graphs, save_graphs, to_pyg
    from .propagate import *  # noqa: F403
    from .propagate import engines, explainers
    from .random import seed
    from .readout import *  # noqa: F403
    from .serving import *  # noqa: F403
    from .structure import ALL
    from .subgraph import *  # noqa: F403
    from .transforms import *  # noqa: F403
    from .traversal import *  # noqa: F403
    from .udf import EdgeBatch, NodeBatch
    from .unread import leave_to_python

if TYPE_CHECKING:
    from .convert.molecules import from_rdkit, from_smiles
    from .convert.pandas import from_pandas, to_pandas
    from .data.tables import from_tables
    from .nn import NodeEmbedding
    from .show.figure import plot
    from .show.models import summary
    from .show.profiling import profile

__version__ = "0.2.0"


def _as_vertex_program(*args: Any) -> str | None:
    """Run a topological propagation by ``dglite.dynamic``, which is loaded, with its compiler, when it is needed."""
    reason: str | None = import_module(".dynamic.propagation", __name__).propagate_as_program(*args)
    return reason


def _explain_dynamic(*args: Any, **options: Any) -> Any:
    """Explain vertex programs and lazy tensors, which there are only if ``dglite.dynamic`` is loaded."""
    if "dynamic" not in globals():  # set when the package is imported
        return None
    return import_module(".dynamic.explanation", __name__).explain_dynamic(*args, **options)


leave_to_python()
if backend.name == "torch":
    engines.append(_as_vertex_program)
    explainers.append(_explain_dynamic)

_MODULES = {name: f"{__name__}.{name}" for name in ("compat", "distributed", "dynamic", "tofu")}
_LATE = {"show.figure": "plot", "convert.pandas": "from_pandas to_pandas", "data.tables": "from_tables"}
_LATE |= {"convert.molecules": "from_rdkit from_smiles", "show.profiling": "profile", "show.models": "summary"}
_LATE |= {"nn": "NodeEmbedding"}
"""Functions that are imported when they are first used, by module."""
_MODULES |= {name: f"{__name__}.{module}:{name}" for module, names in _LATE.items() for name in names.split()}
_MODULES |= {"graphbolt": f"{__name__}.compat.graphbolt", "multiprocessing": "torch.multiprocessing"}


def _why_missing(name: str) -> str:
    why: str = import_module(".compat.missing", __name__).lacking(f"dgl.{name}").why
    return why


__getattr__ = hints.names_of(__name__, _MODULES, _why_missing)


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})


__all__ = [
    "ALL",
    "EID",
    "ETYPE",
    "NID",
    "NTYPE",
    "DGLError",
    "DGLGraph",
    "DGLWarning",
    "EdgeBatch",
    "NodeBatch",
    "NodeEmbedding",
    "NodeFlow",
    "backend",
    "contrib",
    "data",
    "dataloading",
    "empty_cache",
    "estimate",
    "from_pandas",
    "from_pyg",
    "from_rdkit",
    "from_smiles",
    "from_tables",
    "function",
    "geometry",
    "hetero_from_shared_memory",
    "inference",
    "load_graphs",
    "memory_summary",
    "metrics",
    "nn",
    "ops",
    "plot",
    "profile",
    "sampling",
    "save_graphs",
    "seed",
    "sparse",
    "summary",
    "to_pandas",
    "to_pyg",
    "to_tensors",
    "transforms",
]
_LISTS = "batch classic convert generators homophily propagate readout serving subgraph transforms traversal"
__all__ += [name for module in _LISTS.split() for name in import_module(f".{module}", __name__).__all__]
