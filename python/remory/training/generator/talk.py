"""Scenes of talk from all fields of life and work: the ones that tell something and the ones that do not."""

from __future__ import annotations

import random
from collections.abc import Callable

from remory.training.generator.talk_idle import IDLE
from remory.training.generator.talk_told import TOLD
from remory.training.generator.talk_turns import OPEN, TURNS
from remory.training.sessions import Scene

SCENES: tuple[Callable[[random.Random], Scene], ...] = TOLD + TURNS + IDLE + OPEN
