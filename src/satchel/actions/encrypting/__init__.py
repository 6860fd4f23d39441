"""Encrypting files for somebody, and decrypting what was encrypted to this machine."""
