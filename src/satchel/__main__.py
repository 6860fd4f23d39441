"""``python -m satchel`` is the ``satchel`` command."""

from satchel.cli.main import main

main()
