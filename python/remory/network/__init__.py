"""The memory network: its geometry, the trainable module and the checkpoint folder."""

from remory.network.checkpoint import Checkpoint, embedded_checkpoint, load_checkpoint, save_checkpoint
from remory.network.config import SummaryContract
from remory.network.geometry import Geometry
from remory.network.network import MemoryNetwork

__all__ = [
    "Checkpoint",
    "Geometry",
    "MemoryNetwork",
    "SummaryContract",
    "embedded_checkpoint",
    "load_checkpoint",
    "save_checkpoint",
]
