"""One module a language: what its files say, and what an import in it leads to."""
