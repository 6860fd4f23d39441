"""Text with escape sequences, and a pattern of characters that control a terminal."""

import re

NASTY = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\u2066\u200f\x7f\r"
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
