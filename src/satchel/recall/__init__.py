"""Finding memories: by their words, with filters, within a budget, as of a moment."""
