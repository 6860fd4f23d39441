"""Memory files in an object store."""
