"""Waking up: memory in front of a model, and the judgement of what may get there."""
