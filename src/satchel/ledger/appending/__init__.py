"""Appending to a log: what waits for its commit, and what is not taken."""
