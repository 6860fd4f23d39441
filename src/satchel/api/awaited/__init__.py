"""The Python API for programs that await: the same calls, each in a thread of its own."""
