"""File formats, one module each; modules that start with an underscore are shared parts."""
