"""Astrocyte's archives: their lines, what a line says, and the order of them."""
