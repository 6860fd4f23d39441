"""``python -m satchel`` is the ``satchel`` command."""

from satchel.surfaces.cli.main import main

main()
