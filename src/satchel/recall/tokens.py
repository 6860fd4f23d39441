"""How many tokens a memory takes in an answer, estimated: rather too many than too few."""

from satchel.inference.tokenizers.estimate import estimated_tokens

__all__ = ["PER_MEMORY", "estimated_tokens"]

PER_MEMORY = 8
"""Tokens for what stands around a memory: its kind, its date, a line's end."""
