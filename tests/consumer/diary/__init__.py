"""A program that uses Satchel: a diary. Type checkers see all that it calls."""
