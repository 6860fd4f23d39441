"""Files: opening them without surprises, writing them whole or not at all."""
