"""Whole agents: who they are, their files, and the file that holds all of one."""
