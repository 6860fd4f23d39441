"""The Python API: what ``import satchel`` offers."""
