"""Graphs of other programs in files of LadybugDB and of Kuzu, which it comes from.

Both engines register the same names, so a process can have one of them; and a file that somebody
sent may end the process that opens it. So a small program of its own opens a copy (``child``),
and what it reads comes back row by row (``rows``).
"""
