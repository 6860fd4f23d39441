"""``satchel files``: memory files, one command a thing that can be done to them."""
