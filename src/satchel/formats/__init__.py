"""File formats: a module each; those that begin with an underscore are shared parts."""
