"""The ``satchel`` command."""
