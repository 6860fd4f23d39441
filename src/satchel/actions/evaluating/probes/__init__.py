"""Probes: questions about what was remembered, and how an answer is judged without a model."""
