"""The routes by which an owner looks after banks: named, pruned, erased, taken back, restored."""
