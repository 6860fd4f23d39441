"""Measurements: recall, context, containment, continuity, and the tables of the paper."""
