"""Content-type enforcement: what is not what its block is for is held back, never rewritten."""
