"""From a history to a memory and back: the pyramid's plan, the compactor, the receipt."""

from remory.compaction.compactor import Compactor
from remory.compaction.memory import Memory
from remory.compaction.pyramid import Merge, Node, Pyramid, plan_pyramid

__all__ = ["Compactor", "Memory", "Merge", "Node", "Pyramid", "plan_pyramid"]
