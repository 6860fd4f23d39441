"""Counting tokens: with a model's own vocabulary where a package carries it, else an estimate."""
