"""Engines run the frozen actor; `base` says what they all do."""
