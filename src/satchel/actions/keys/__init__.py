"""Putting one key in the place of another, and letting keys go."""
