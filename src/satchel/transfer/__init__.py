"""Import, export, conversion, disclosure."""
