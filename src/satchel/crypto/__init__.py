"""Canonical bytes, ids, Merkle trees, signatures, tokens and encryption."""
