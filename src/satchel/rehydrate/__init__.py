"""Waking up: memory put in front of a model, in seven stages that can be looked at one by one."""
