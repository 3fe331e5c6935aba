"""Partition a training step over workers (Tofu; Wang's dissertation, chapter 3)."""

from .baselines import BASELINES
from .capture import Captured, capture
from .plan import PartitionPlan, PlanStep, plan, plan_captured

__all__ = ["BASELINES", "Captured", "PartitionPlan", "PlanStep", "capture", "plan", "plan_captured"]
