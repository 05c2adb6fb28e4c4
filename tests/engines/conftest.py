from __future__ import annotations

from collections.abc import Iterator

import pytest

from remory.engines.base import GenerationOutput, GenerationRequest
from remory.engines.transformers import TransformersEngine
from remory.network import load_checkpoint


@pytest.fixture(scope="session")
def engine(tiny_actor, tiny_checkpoint) -> Iterator[TransformersEngine]:
    engine = TransformersEngine(tiny_actor, load_checkpoint(tiny_checkpoint))
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def reference(tiny_actor):
    """The same actor, run by Transformers itself."""
    from remory.actors import load_model

    return load_model(tiny_actor, "cpu", None)


def finish(engine: TransformersEngine, request: GenerationRequest) -> GenerationOutput:
    """The last output of a generation."""
    outputs = [output for output in engine.generate(request) if output is not None]
    assert outputs[-1].finish_reason is not None
    return outputs[-1]
