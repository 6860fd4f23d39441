"""A bank as the holder of a capability token has it: a part to see, and a part to add to."""
