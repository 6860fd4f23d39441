"""Which store is meant: what was said, what is there, and where its files are."""
