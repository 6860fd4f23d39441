"""One module a vector file, each with ``write(folder)``."""
