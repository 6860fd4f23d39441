"""Framing: memory as records that nothing in them can leave."""
