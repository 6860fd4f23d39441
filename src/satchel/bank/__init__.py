"""A bank: opened, read and written on behalf of its owner or the holder of a token."""
