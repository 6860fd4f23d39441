"""The model: plain immutable values for every kind of record, no I/O."""
