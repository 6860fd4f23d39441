"""``satchel memory``: the commands that amplihack has for the memory of its agents."""
