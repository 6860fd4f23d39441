"""``satchel evaluate``: how well memory is found, carried over, and kept where it is put."""
