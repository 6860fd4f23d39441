"""Agent hosts that use this memory: their configuration, with us in it or not."""
