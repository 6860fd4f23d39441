"""Payment cards: numbers of a known issuer, grouped as on a card, whose check digit is right."""

import re
from collections.abc import Iterator

from satchel.screen.vendors import Found

# Not within a word, a decimal number or a telephone number; grouped by one separator throughout.
_number = re.compile(
    r"(?<![\w.+])(?<!\w-)"
    r"(?:\d{4}([ .-]?)\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?|\d{4}([ -])\d{6}\2\d{4,5}|\d{14,15})"
    r"(?!\w|[.-]\w)",
    re.ASCII,
)
_lengths = re.compile(
    r"(?:4|5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|6(?:011|4[4-9]|5|2)|35(?:2[89]|[3-8]))()"
    r"|3[47]()|3(?:0[0-5]|[689])()"
)
_SIXTEEN, _FIFTEEN, _FOURTEEN = 1, 2, 3
_LONGEST = 19
_FEWEST_DIFFERENT = 2
_another_number = re.compile(
    r"(?i)(?:order|invoice|tracking|ticket|parcel|shipment|imei|isbn|reference|ref|serial|case)"
    r"[ \t]{0,2}(?:number|no|nr|num|id)?[\s#:.]{0,4}$"
).search
_BEFORE = 24
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


def card_numbers(text: str) -> Iterator[Found]:
    """Yield the payment cards in a text."""
    for found in _number.finditer(text):
        start = found.start()
        if is_card(found[0]) and not _another_number(text[max(0, start - _BEFORE) : start]):
            yield Found(start, found.end(), "card-number")


def is_card(text: str) -> bool:
    """Tell whether the digits in a text have an issuer, its length, and the right check digit."""
    digits = re.sub(r"[ .-]", "", text)
    issuer = _lengths.match(digits)
    if issuer is None or len(set(digits)) < _FEWEST_DIFFERENT:
        return False
    if issuer.lastindex == _FIFTEEN:
        fits = len(digits) == 15  # noqa: PLR2004 - as the issuers say
    elif issuer.lastindex == _FOURTEEN:
        fits = len(digits) == 14  # noqa: PLR2004
    else:
        fits = len(digits) == 16 or len(digits) == _LONGEST < len(text)  # noqa: PLR2004
    return fits and _checks(digits)


def _checks(digits: str) -> bool:
    """Tell whether the last digit is right by the Luhn rule."""
    plain = sum(map(int, digits[-1::-2]))
    doubled = sum(_DOUBLED[int(digit)] for digit in digits[-2::-2])
    return (plain + doubled) % 10 == 0
