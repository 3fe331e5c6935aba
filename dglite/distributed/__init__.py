"""Graphs of several machines, on torch.distributed: processes move in lockstep through collectives."""

from .feature_split import FeatureSplit
from .full_graph import FullGraph
from .full_graph_plan import FullGraphPlan, plan_full_graph

__all__ = ["FeatureSplit", "FullGraph", "FullGraphPlan", "plan_full_graph"]
