"""Whole layers that DGL pickled, as ``torch.save(layer)`` does: what their pickles name, and what our layers lack then.

A pickle of a layer is its class and its attributes. A layer that has DGL's attributes is taken as it is. What ours has
besides is computed from DGL's when the layer is unpickled: ``_DERIVED`` says how, for each class.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from .. import function as fn
from ..nn.conv.cfconv import CFConv
from ..nn.conv.dotgatconv import DotGatConv
from ..nn.conv.edgegatconv import EdgeGATConv
from ..nn.conv.gatconv import GATConv
from ..nn.conv.gmmconv import GMMConv
from ..nn.conv.pnaconv import PNAConv, PNAConvTower
from ..nn.conv.twirlsconv import Perceptron, TWIRLSConv, TWIRLSUnfoldingAndAttention
from ..nn.glob.setattention import MultiHeadAttention
from ..nn.glob.settransformer import SetTransformerEncoder
from ..nn.gt.egt import EGTLayer
from ..nn.gt.lap_pos_encoder import LapPosEncoder
from ..nn.hetero.heterographconv import HeteroGraphConv
from ..nn.network_emb.deepwalk import DeepWalk, pairs_in_windows
from ..nn.network_emb.draw import Draw
from ..nn.network_emb.metapath2vec import MetaPath2Vec, first_numbers

__all__: list[str] = []

MLP, DGNConvTower = Perceptron, PNAConvTower


# -- parts of DGL's layers that are no parts of ours -------------------------------------------------------------------
class Propagate(nn.Module):
    """A step of ``TWIRLSUnfoldingAndAttention`` with preconditioning."""


class PropagateNoPrecond(nn.Module):
    """A step of ``TWIRLSUnfoldingAndAttention`` without preconditioning."""


class TWIRLSAttention(nn.Module):
    """The attention of ``TWIRLSUnfoldingAndAttention``: its numbers."""


Attention = TWIRLSAttention


def _sum_reduce_func(inputs: torch.Tensor, dim: int) -> torch.Tensor:
    return inputs.sum(dim)


def _mean_reduce_func(inputs: torch.Tensor, dim: int) -> torch.Tensor:
    return inputs.mean(dim)


def _max_reduce_func(inputs: torch.Tensor, dim: int) -> torch.Tensor:
    return inputs.max(dim)[0]


def _min_reduce_func(inputs: torch.Tensor, dim: int) -> torch.Tensor:
    return inputs.min(dim)[0]


def _agg_func(inputs: list[torch.Tensor], dsttype: str, fn: Callable[..., torch.Tensor]) -> torch.Tensor | None:
    return fn(torch.stack(inputs), dim=0) if inputs else None


def _stack_agg_func(inputs: list[torch.Tensor], dsttype: str) -> torch.Tensor | None:
    return torch.stack(inputs, dim=1) if inputs else None


# -- what our layers have besides --------------------------------------------------------------------------------------
_AGGREGATE_NAMES = {
    _sum_reduce_func: "sum",
    _mean_reduce_func: "mean",
    _max_reduce_func: "max",
    _min_reduce_func: "min",
    _stack_agg_func: "stack",
}
_REDUCER_NAMES = {fn.sum: "sum", fn.mean: "mean", fn.max: "max"}


def _is_paired(layer: Any) -> bool:
    """Whether sources and destinations have matrices of their own."""
    return "fc_src" in layer._modules


def _aggregate(layer: Any) -> Any:
    """Return how ``HeteroGraphConv`` aggregates: a name, or a user's function."""
    function = vars(layer)["agg_fn"]
    reducer = function.keywords["fn"] if isinstance(function, functools.partial) else function
    return _AGGREGATE_NAMES.get(reducer, function)


def _attention_of(layer: Any, name: str, default: float) -> Any:
    """Return a number of the attention of ``TWIRLSUnfoldingAndAttention``, or ``default`` without attention."""
    modules = layer._modules.get("attn_layer"), layer._modules.get("init_attn")
    return next((getattr(module, name) for module in modules if module is not None), default)


def _width_of_blocks(layer: Any) -> int:
    return next(module.d_model for module in layer.layers.modules() if isinstance(module, MultiHeadAttention))


def _draw_by_degree(layer: Any) -> Draw | None:
    return None if layer.fast_neg else Draw(layer.g.adjacency().out_degrees())


_DERIVED: dict[type, dict[str, Callable[[Any], Any]]] = {
    CFConv: {"_edge_in_feats": lambda layer: layer.project_edge[0].in_features},
    DeepWalk: {
        "_places": lambda layer: pairs_in_windows(layer.walk_length, layer.window_size),
        "_draw": _draw_by_degree,
    },
    DotGatConv: {"_paired": _is_paired},
    EGTLayer: {
        "feat_size": lambda layer: layer.node_output.out_features,
        "edge_feat_size": lambda layer: layer.edge_input.in_features,
    },
    EdgeGATConv: {"_paired": _is_paired},
    GATConv: {"_paired": _is_paired},
    GMMConv: {"_aggre_type": lambda layer: _REDUCER_NAMES[layer._reducer]},
    HeteroGraphConv: {
        "_keys": lambda layer: {str(key): key for key in vars(layer).get("mod_dict", layer.mods)},
        "_aggregate": _aggregate,
    },
    LapPosEncoder: {"k": lambda layer: None if layer.raw_norm is None else layer.raw_norm.num_features},
    MetaPath2Vec: {
        "_starts": lambda layer: first_numbers(layer.hg, layer.node_metapath),
        # Which raises numbers of visits to the power of 3/4.
        "_draw": lambda layer: Draw(layer.neg_prob.numpy().astype(np.float64) ** (4 / 3)),
    },
    MultiHeadAttention: {"dropouta": lambda layer: layer.dropa.p},
    PNAConv: {"_aggregators": lambda layer: tuple(layer.towers[0].aggregators)},
    Perceptron: {
        "drop": lambda layer: nn.Dropout(layer.dropout).train(layer.training),
        "normalises": lambda layer: layer.norm != "none",
    },
    SetTransformerEncoder: {"d_model": _width_of_blocks},
    TWIRLSConv: {
        "inp_drop": lambda layer: nn.Dropout(layer.inp_dropout).train(layer.training),
        "cached_unfolding": lambda layer: None,
    },
    TWIRLSUnfoldingAndAttention: {
        "T": lambda layer: _attention_of(layer, "T", -1),
        "attn_drop": lambda layer: nn.Dropout(_attention_of(layer, "attn_dropout", 0.0)).train(layer.training),
        "precond": lambda layer: not any(isinstance(step, PropagateNoPrecond) for step in layer.prop_layers),
    },
}
_REPLACED = {
    HeteroGraphConv: ("agg_fn", "mod_dict"),
    TWIRLSUnfoldingAndAttention: ("prop_layers", "init_attn", "attn_layer"),
}
"""Attributes of DGL's layers that ours have no use for, and that would hide properties or be printed."""


def _set_state(layer: nn.Module, state: Mapping[str, Any]) -> None:
    """Take the attributes of a pickle, one of DGL's or of our own."""
    nn.Module.__setstate__(layer, dict(state))
    for kind in type(layer).__mro__:
        for name, derived in _DERIVED.get(kind, {}).items():
            if not hasattr(layer, name):
                setattr(layer, name, derived(layer))
        for name in _REPLACED.get(kind, ()):
            vars(layer).pop(name, None)
            layer._modules.pop(name, None)


for _kind in _DERIVED:
    _kind.__setstate__ = _set_state  # type: ignore[attr-defined]
