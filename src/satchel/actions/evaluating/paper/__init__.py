"""The tables of the paper, measured on this implementation."""
