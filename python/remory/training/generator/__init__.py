"""Generated sessions to train a memory on: scenes of work, of talk and of documents, put together by a seed."""

from remory.training.generator.assembly import SCENES, generate_session

__all__ = ["SCENES", "generate_session"]
