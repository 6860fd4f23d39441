"""Erasing records: what may be erased, what an erasure takes along, and what came back."""
