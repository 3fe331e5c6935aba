"""Partition a training step over workers (Tofu; Wang's dissertation, chapter 3)."""

from .baselines import BASELINES
from .capture import Captured, capture
from .parallel import parallelize
from .plan import PartitionPlan, PlanStep
from .planning import plan, plan_captured
from .step import ParallelStep

__all__ = [
    "BASELINES",
    "Captured",
    "ParallelStep",
    "PartitionPlan",
    "PlanStep",
    "capture",
    "parallelize",
    "plan",
    "plan_captured",
]
