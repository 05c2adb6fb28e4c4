"""Language models around the actor: texts become vectors, conversations become summaries."""
