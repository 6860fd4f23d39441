"""Commands by which memory is shared with others."""
