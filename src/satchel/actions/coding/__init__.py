"""What can be asked of a bank's code: read a source tree, say what is in it and who means whom."""
