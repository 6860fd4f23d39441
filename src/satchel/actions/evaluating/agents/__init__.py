"""Agents that are measured: a function, a program, an endpoint, and one that reads."""
