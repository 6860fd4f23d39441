"""``satchel file``: memory files, one command a thing that can be done to them."""
