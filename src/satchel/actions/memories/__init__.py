"""The verbs on the memories of one bank: remember, change, forget, look at."""
