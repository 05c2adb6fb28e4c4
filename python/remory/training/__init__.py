"""Training a memory network for an actor: data, selection labels, curriculum, checkpoints that resume."""
