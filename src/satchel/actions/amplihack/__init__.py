"""amplihack's own commands and roles, on Satchel's banks: an agent is a bank of its name."""
