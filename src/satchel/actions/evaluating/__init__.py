"""How well recall finds what questions ask for, on sets of conversations with known answers."""
