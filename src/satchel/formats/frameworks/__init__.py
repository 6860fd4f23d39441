"""Stores of agent frameworks and vector databases: one module a format; its name is the registry's."""
