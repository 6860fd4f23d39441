"""The artifact: a sealed copy of memory in one file, in three encodings with one signature."""
