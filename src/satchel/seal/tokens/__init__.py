"""Capability tokens: what a holder may do with which memory of a bank, signed by its owner."""
