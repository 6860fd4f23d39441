"""The code that a bank's memories speak of: what is in a source tree, and how it hangs together."""
