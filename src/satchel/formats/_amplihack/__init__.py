"""amplihack's hierarchical memory: facts and episodes, joined by four kinds of edges."""
