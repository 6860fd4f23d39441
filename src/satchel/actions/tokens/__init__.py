"""Capability tokens of a bank: issued, handed on, looked at, revoked."""
