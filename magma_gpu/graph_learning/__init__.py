"""A ranker that learns to walk: candidate events of a question as a graph, a small heterogeneous network over it."""
