"""Checkpoints that come with Remory, and the programs that made them."""
