"""Stores that are elsewhere: immutable packs and one head, advanced by compare-and-swap."""
