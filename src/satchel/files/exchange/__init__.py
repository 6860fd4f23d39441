"""Memory files in other products' forms: the memory tool, memory stores, plain folders."""
