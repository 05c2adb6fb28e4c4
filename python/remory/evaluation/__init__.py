"""Whether a memory carries what the removed history said: recorded sessions, ways to go on, and what is measured."""
