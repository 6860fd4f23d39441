"""The languages of the code graph."""
