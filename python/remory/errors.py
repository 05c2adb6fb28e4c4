"""What can go wrong, as types: whoever serves Remory maps each to a status in one place."""


class RemoryError(Exception):
    """Base of all errors whose text is meant for the caller."""


class InvalidInput(RemoryError, ValueError):
    """The caller's input cannot be used; the text says why, with the numbers. Nothing was changed."""


class ContextOverflow(InvalidInput):
    """The tokens do not fit the actor's context window."""


class IncompatibleMemory(InvalidInput):
    """The memory was made by another checkpoint or another actor."""


class CheckpointError(RemoryError, ValueError):
    """A checkpoint folder is damaged or does not fit its own configuration."""


class DamagedIndex(RemoryError, ValueError):
    """A saved index is damaged, is no index, or is of a format version that this Remory does not read."""


class EngineFailed(RemoryError):
    """The actor failed while it worked on a valid request."""


class EngineBusy(RemoryError):
    """The actor is starting or takes no more requests now; try again later."""


class EmbedderFailed(RemoryError):
    """The embedding model, or the endpoint that runs it, failed on valid texts."""


class SummarizerFailed(RemoryError):
    """The summariser, or the endpoint that runs it, gave nothing that could be used."""
