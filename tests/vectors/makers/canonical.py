"""JSON texts with their one canonical text and their one CBOR item."""

import json
from pathlib import Path

from makers.common import MAX_DEPTH, cbor, jcs, write_json

NUMBERS = [
    ("zero", "0"),
    ("zero with a minus sign loses it", "-0"),
    ("a zero fraction with a minus sign loses both", "-0.0"),
    ("zero with an exponent", "0e5"),
    ("an integral float is an integer", "1.0"),
    ("a negative integral float is an integer", "-7.000"),
    ("an integer written with an exponent", "25e2"),
    ("an integer written with a negative exponent", "2500e-2"),
    ("a float that becomes an integer by its exponent", "123456.789e3"),
    ("the largest integer", "9007199254740991"),
    ("the smallest integer", "-9007199254740991"),
    ("the largest integer as a float", "9007199254740991.0"),
    ("the largest integer with an exponent", "9.007199254740991e15"),
    ("ten to the fifteenth with an exponent", "1e15"),
    ("integer 23 is one byte in CBOR", "23"),
    ("integer 24 is two bytes in CBOR", "24"),
    ("integer 255", "255"),
    ("integer 256", "256"),
    ("integer 65535", "65535"),
    ("integer 65536", "65536"),
    ("integer 4294967295", "4294967295"),
    ("integer 4294967296", "4294967296"),
    ("integer -24", "-24"),
    ("integer -25", "-25"),
    ("integer -256", "-256"),
    ("integer -257", "-257"),
    ("integer -4294967296", "-4294967296"),
    ("integer -4294967297", "-4294967297"),
    ("a tenth needs 64 bits", "0.1"),
    ("one and a half fits 16 bits", "1.5"),
    ("a trailing zero goes", "1.50"),
    ("minus one and a half", "-1.5"),
    ("a float of 32 bits", "0.100000001490116119384765625"),
    ("ten to the minus five stays positional", "1e-5"),
    ("9.7e-06 stays positional", "9.7e-06"),
    ("ten to the minus six stays positional", "1e-6"),
    ("just below ten to the minus six gets an exponent", "9.999999999999997e-7"),
    ("ten to the minus seven gets an exponent", "1E-7"),
    ("the smallest number of all", "5e-324"),
    ("the smallest normal number", "2.2250738585072014e-308"),
    ("a number too small for a double is zero", "1e-400"),
    ("the largest number that is not integral", "4503599627370495.5"),
    ("more digits than a double holds", "0.3000000000000000444089209850062616"),
    ("the sum of a tenth and two tenths", "0.30000000000000004"),
    ("the smallest 16 bit float", "5.9604644775390625e-8"),
    ("half the smallest 16 bit float needs 32 bits", "2.98023223876953125e-8"),
    ("the largest 16 bit float below one", "0.99951171875"),
    ("one 16 bit step finer needs 32 bits", "0.999755859375"),
    ("the largest 16 bit float with a fraction", "1023.5"),
    ("the largest 16 bit float with a half in its step", "2047.5"),
    ("the smallest 32 bit float", "1.401298464324817e-45"),
    ("half the smallest 32 bit float needs 64 bits", "7.006492321624085e-46"),
    ("a subnormal 16 bit float", "0.00006097555160522461"),
    ("the smallest normal 16 bit float", "0.00006103515625"),
]

STRINGS = [
    ("the empty text", '""'),
    ("short escapes stay", r'"\b\t\n\f\r\"\\"'),
    ("other control characters are escaped in lower case", r'"\u0000\u0001\u001F\u000b"'),
    ("a tab written by its number gets its short escape", r'"\u0009\u000A"'),
    ("an escaped solidus loses its escape", r'"a\/b"'),
    ("delete is written as it is", '"\\u007f\x7f"'),
    ("line and paragraph separators are written as they are", r'"\u2028\u2029"'),
    ("escaped letters become letters", r'"\u0041\u00e9"'),
    ("an escaped pair becomes one character", r'"\ud83d\ude00"'),
    ("emoji with joiners", '"\U0001f469\u200d\U0001f4bb \U0001f1eb\U0001f1ee"'),
    ("Japanese", '"\u65e5\u672c\u8a9e\u306e\u8a18\u61b6"'),
    ("Arabic and Hebrew", '"\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd"'),
    ("a composed letter stays composed", '"\u00e9"'),
    ("a combining sequence is not composed", '"e\u0301"'),
    ("a byte order mark inside a text is a character", '"\ufeffx"'),
    ("a noncharacter is a character", r'"\uffff\ufffe"'),
    ("the last code point", '"\U0010ffff"'),
    ("the last character before the surrogates", '"\ud7ff\ue000"'),
    ("a text of 24 bytes has a two byte CBOR head", '"' + "x" * 24 + '"'),
    ("a text of 256 bytes has a three byte CBOR head", '"' + "x" * 256 + '"'),
]

SHAPES = [
    ("true", "true"),
    ("false", "false"),
    ("null", "null"),
    ("an empty list", "[]"),
    ("an empty object", "{}"),
    ("empty things in empty things", '{"a":[{},[],[[]]],"":{"":{}}}'),
    ("white space outside texts goes", ' {\t"b" : [ 1 ,\r\n 2 ] , "a" : " x " } \n'),
    ("null members stay", '{"b":null,"a":[null]}'),
    ("keys are sorted", '{"b":1,"a":2,"B":3,"A":4,"_":5}'),
    ("a key sorts before a longer one", '{"ab":1,"a":2,"aa":3,"":4}'),
    ("keys of digits are texts", '{"10":1,"9":2,"1":3,"-1":4}'),
    ("keys sort by their characters, not their escapes", r'{"\u0062":1,"a":2,"\n":3}'),
    ("keys beyond the BMP sort by UTF-16 units", '{"\ufb33":1,"\U0001f600":2,"\uffff":3}'),
    ("a pair sorts between its neighbours", '{"\ue000":1,"\U00010000":2,"\ud7ff":3,"z":4}'),
    ("composed and combining keys are two keys", '{"\u00e9":1,"e\u0301":2}'),
    ("CBOR sorts keys by length first", '{"bb":1,"c":2,"\u00e9":3,"aaa":4}'),
    ("names that mean something to JavaScript", '{"constructor":1,"__proto__":2,"length":3}'),
    ("nested objects are sorted too", '{"z":{"y":{"b":1,"a":2},"x":[{"d":1,"c":2}]}}'),
    ("a number that looks like text", '{"a":"9.7e-06","b":9.7e-06}'),
    ("carried values are ordinary objects", '{"$int":"12345678901234567890","$$int":1}'),
    ("24 members need a two byte CBOR head", json.dumps({f"k{n:02}": n for n in range(24)})),
    ("lists as deep as allowed", "[" * MAX_DEPTH + "]" * MAX_DEPTH),
    ("a value at the deepest place", "[" * MAX_DEPTH + "1.5" + "]" * MAX_DEPTH),
    ("objects as deep as allowed", '{"a":' * (MAX_DEPTH - 1) + "{}" + "}" * (MAX_DEPTH - 1)),
    ("wide but not deep", "[" + ",".join(["[]"] * 100) + "]"),
]


def write(folder: Path) -> list[Path]:
    """Write ``canonical.json``."""
    cases = []
    for name, text in [*NUMBERS, *STRINGS, *SHAPES]:
        # RFC 8785 and Python disagree on nothing here but the sign of zero and integral floats,
        # which `plain_numbers` settles before either encoder sees the value.
        value = json.loads(text)
        cases.append(
            {
                "name": name,
                "input": text,
                "canonical": jcs(value).decode(),
                "cbor": cbor(value).hex(),
            }
        )
    return [write_json(folder / "canonical.json", {"cases": cases})]
