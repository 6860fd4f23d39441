"""Serving a store to others: what its servers have to know of each other."""
