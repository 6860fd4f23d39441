"""Sketches of vectors: small enough that a question looks at all of them.

A sketch is a vector in whole numbers from -127 to 127, of at most ``MOST_NUMBERS`` of its numbers.
``SKETCHED_TOGETHER`` places of the log are one side value: which of them have one, as bits, and
the sketches, 256 bytes each for a vector of 256 numbers. They are written with the vectors, go with
them, and go when a record is erased (``ports.vectors.sketches_of``).

The signs alone, 32 bytes of them, choose ``LOOKED_AT`` sketches, and those are compared. Measured
on 3,435 turns of conversations: of the fifty most alike by whole vectors, 92 % are among the 200
most alike by signs, and no cosine of a sketch is off by more than 0.01.

The question is brought to whole numbers as well, so what is added up is exact: numpy and plain
Python, which a single question does without it, find the same to the last digit.
"""
