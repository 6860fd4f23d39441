"""Personal data in a text: what tells who somebody is, where they live, and how to reach them.

Shapes with a check where there is one, and words that say what comes after them. Names without a
title, or words like "my name is" before them, are not found by shape: whoever redacts names them,
or the record has them among its entities. Every pattern is linear in the text.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator

from satchel.screening.vendors import SensitiveSpan

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


def card_numbers(text: str) -> Iterator[SensitiveSpan]:
    """Yield the payment cards in a text."""
    for found in _number.finditer(text):
        start = found.start()
        if is_card(found[0]) and not _another_number(text[max(0, start - _BEFORE) : start]):
            yield SensitiveSpan(start, found.end(), "card-number")


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


KINDS: dict[str, str] = {
    "email": "Mail address",
    "card-number": "Payment card of a known issuer, with a valid check digit",
    "iban": "Bank account by its IBAN, with valid check digits",
    "id-number": "Number of a passport, licence, insurance or tax, by its form or its name",
    "phone": "Telephone number, international or as its country writes it",
    "birth-date": "Date of birth, where the text says that it is one",
    "address": "Street with a number, or a postal code with its context",
    "ip-address": "Address of a machine, version 4 or 6",
    "name": "Name after a title, or after words that say that it is one",
}
"""What is recognised, and its title; in order of precedence."""

_MONTH = r"(?:Jan|Feb|M(?:ar|är)|Apr|Ma[iy]|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz])[a-z]{0,6}\.?"
_DATE = (
    r"(?:\d{4}-\d{2}-\d{2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)? {_MONTH},? \d{{4}}"
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}})"
)
_WORD = r"[A-ZÀ-ÖØ-Þ][\w'\u2019-]{1,30}"
_NAME = rf"(?P<is>{_WORD}(?: (?:(?:van|von|de|der|di|da|al|bin|le|la) ){{0,2}}{_WORD}){{0,3}})"
_STREET = (
    "(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Square|Sq|Place|Pl"
    "|Terrace|Way|Crescent|Close|Row|Mews|Highway|Hwy|Parkway|Pkwy)"
)
_CALLED = "(?:my|her|his|their|whose) (?:full |first |last |real )?name is|called herself|call me"

_EMAIL = re.compile(
    r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])",
)
_PHONES = (
    re.compile(r"(?<![\w.+/-])(?:\+|00)[1-9](?:[ ./()-]{0,2}\d){6,14}(?![\w-])"),
    re.compile(r"(?<![\w.+/-])(?:1[ .-])?(?:\(\d{3}\) ?|\d{3}[.-])\d{3}[ .-]\d{4}(?![\w-])"),
    re.compile(r"(?<![\w.+/-])\(?0\d{1,5}\)?[ /-](?:\d[ -]?){4,9}\d(?![\w-])"),
    re.compile(
        r"(?i)\b(?:tel|phone|telephone|mobile|cell|fax|handy|telefon)\b[\s.:#]{0,4}"
        r"(?:number |no\.? |is |at ){0,3}(?P<is>\d(?:[ ./()-]{0,2}\d){5,14})(?![\w-])"
    ),
)
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_IDS = (
    re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])"),
    re.compile(
        r"(?<!\w)(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D](?!\w)"
    ),
    re.compile(
        r"(?i)\b(?:passport|driv(?:er|ing)(?:['\u2019]?s)? licen[cs]e|national insurance"
        r"|social security|ssn|tax(?:payer)? id|identity card|id card|insurance"
        r"|patient|medical record|steuer-?id)"
        r"[\s.:#]{0,3}(?:number |no\.? |nr\.? |id |is |:){0,3}"
        r"(?P<is>(?=[A-Z-]{0,12}\d)[A-Z0-9-]{5,20})"
        r"(?![\w-])"
    ),
)
_BIRTH = re.compile(
    rf"(?i)\b(?:born|dob|birth ?day|date of birth|birth date|geboren)\b[\s:,]{{0,3}}"
    rf"(?:on |is |in |am |the ){{0,2}}(?P<is>{_DATE})(?!\w)"
)
_ADDRESSES = (
    re.compile(
        rf"(?<!\w)\d{{1,5}}[A-Za-z]? (?:{_WORD} ){{1,4}}{_STREET}\b\.?"
        r"(?:,? (?:Apt|Apartment|Suite|Flat|Unit|No)\.? ?#?\w{1,6})?"
        rf"(?:, {_WORD}(?: {_WORD}){{0,2}})?(?:,? [A-Z]{{2}} \d{{5}}(?:-\d{{4}})?)?"
    ),
    re.compile(
        r"(?<!\w)[A-ZÄÖÜ][\w-]{0,40}(?:straße|strasse|str\.|weg|platz|allee|gasse|ring)"
        rf" \d{{1,4}}[a-z]?(?:,? \d{{5}} {_WORD})?(?!\w)"
    ),
    re.compile(r"(?<!\w)[A-Z]{1,2}\d[A-Z\d]? \d[ABD-HJLNP-UW-Z]{2}(?!\w)"),
    re.compile(rf"(?<!\w){_WORD}, [A-Z]{{2}} \d{{5}}(?:-\d{{4}})?(?!\w)"),
)
_IP4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)")
_IP6 = re.compile(
    r"(?<![\w:])(?=[0-9A-Fa-f:]{0,38}:[0-9A-Fa-f:]{0,38}:)[0-9A-Fa-f:]{4,39}(?![\w:])"
)
_NAMES = (
    re.compile(
        rf"(?<!\w)(?:Mrs?|Ms|Miss|Dr|Prof|Professor|Sir|Lady|Herr|Frau|Mme|Sra?|Señora?)\.? {_NAME}"
    ),
    re.compile(rf"(?i:\b(?:{_CALLED}|named|ich heiße|je m['\u2019]appelle|me llamo)) {_NAME}"),
)
_LEAST_DIGITS, _MOST_DIGITS, _REST, _MODULO = 7, 15, 1, 97
_SIGNS = re.compile(r"[\d@]")
_A_DATE = re.compile(_DATE)


def personal_data(text: str) -> Iterator[SensitiveSpan]:
    """Yield the personal data in a text, in any order and on top of each other."""
    yield from _matches("name", _NAMES, text)
    if not _SIGNS.search(text):
        return
    yield from _matches("email", (_EMAIL,), text)
    yield from _matches("phone", _PHONES, text, _is_phone)
    yield from card_numbers(text)
    yield from _matches("iban", (_IBAN,), text, _is_iban)
    yield from _matches("id-number", _IDS, text)
    yield from _matches("birth-date", (_BIRTH,), text)
    yield from _matches("address", _ADDRESSES, text)
    yield from _matches("ip-address", (_IP4, _IP6), text, _is_address)


def _matches(
    kind: str,
    patterns: tuple[re.Pattern[str], ...],
    text: str,
    holds: Callable[[str], bool] | None = None,
) -> Iterator[SensitiveSpan]:
    for pattern in patterns:
        group = "is" if "is" in pattern.groupindex else 0
        for match in pattern.finditer(text):
            if holds is None or holds(match[group]):
                yield SensitiveSpan(*match.span(group), kind)


def _is_phone(text: str) -> bool:
    digits = sum(map(str.isdigit, text))
    return _LEAST_DIGITS <= digits <= _MOST_DIGITS and not _A_DATE.fullmatch(text)


def _is_iban(text: str) -> bool:
    """Tell whether the check digits of an IBAN are right (ISO 13616)."""
    plain = text.replace(" ", "")
    turned = "".join(str(int(char, 36)) for char in plain[4:] + plain[:4])
    return int(turned) % _MODULO == _REST


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return any(map(str.isdigit, text)) and text not in ("::1", "127.0.0.1", "0.0.0.0")  # noqa: S104
