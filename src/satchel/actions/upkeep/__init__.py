"""Looking after banks: pruning, copying, merging, deleting."""
