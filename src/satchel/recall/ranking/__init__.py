"""The order of what was nominated: several signals, each made comparable, and their sum."""
