"""Stores of agent frameworks and vector databases: one module a format, by its name."""
