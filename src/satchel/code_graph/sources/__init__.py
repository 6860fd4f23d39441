"""Where code comes from: a folder of source files, or an index that another tool made."""
