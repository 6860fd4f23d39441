"""Personal data in a text: identity, addresses and contact data, by rules and by Presidio.

The rules are patterns, with check digits if there are any, and words that announce a value. A name
without a title or words like "my name is" before it is found only if it is given for a redaction,
or is an entity of the record. Every pattern is linear in the length of the text.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Any

from satchel.errors import MissingExtraError
from satchel.screening.secrets import SensitiveSpan, card_numbers

KINDS: dict[str, str] = {
    "email": "Mail address",
    "card-number": "Payment card of a known issuer, with a valid check digit",
    "iban": "Bank account by its IBAN, with valid check digits",
    "id-number": "Number of a passport, license, insurance or tax, by its form or its name",
    "phone": "Telephone number, international or as its country writes it",
    "birth-date": "Date of birth, where the text says that it is one",
    "address": "Street with a number, or a postal code with its context",
    "ip-address": "Address of a machine, version 4 or 6",
    "name": "Name after a title, or after words that say that it is one",
}
"""Kinds of personal data with their titles, in order of precedence."""

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
    """Yield the personal data in a text, in any order; spans may overlap."""
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
    """Return whether the check digits of an IBAN are valid (ISO 13616)."""
    plain = text.replace(" ", "")
    turned = "".join(str(int(char, 36)) for char in plain[4:] + plain[:4])
    return int(turned) % _MODULO == _REST


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return any(map(str.isdigit, text)) and text not in ("::1", "127.0.0.1", "0.0.0.0")  # noqa: S104


_SPACY_MODELS = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")
_LANGUAGE, _LONGEST_TEXT = "en", 2**24
_MIN_SCORE = 0.4
"""Lowest score; patterns such as "any eight digits" have a lower one."""

_FETCHING_RECOGNIZER = "EmailRecognizer"
"""It downloads a list of domains; the built-in rules find mail addresses."""

_PRESIDIO_KINDS = {
    "CREDIT_CARD": "card-number",
    "EMAIL_ADDRESS": "email",
    "IBAN_CODE": "iban",
    "IP_ADDRESS": "ip-address",
    "LOCATION": "address",
    "MAC_ADDRESS": "ip-address",
    "PERSON": "name",
    "PHONE_NUMBER": "phone",
}
_NOT_PERSONAL = frozenset({"DATE_TIME", "NRP", "ORGANIZATION", "URL", "UUID"})
"""Times, groups, companies and URLs, which identify a person only in combination."""

_OTHER_KIND = "id-number"
"""The kind of all other findings, which are numbers of persons."""


class PresidioDetector:
    """Finds personal data in a text with Microsoft Presidio; see ``redaction.Detector``.

    It knows numbers of more countries, and names by a spaCy model for English, if one is installed.
    Nothing is downloaded. Source: https://microsoft.github.io/presidio/supported_entities/

    Raises:
        MissingExtraError: If Presidio is not installed.
    """

    def __init__(self) -> None:
        from importlib.metadata import version

        self.language_model, nlp = _spacy_model()
        self.model = f"presidio-analyzer {version('presidio-analyzer')}"
        self._analyzer = _analyzer(nlp)

    def __call__(self, text: str) -> Iterator[SensitiveSpan]:
        """Yield the personal data in a text, in any order; spans may overlap."""
        for result in self._analyzer.analyze(text, language=_LANGUAGE):
            if result.entity_type not in _NOT_PERSONAL:
                yield SensitiveSpan(
                    result.start, result.end, _PRESIDIO_KINDS.get(result.entity_type, _OTHER_KIND)
                )

    @property
    def note(self) -> str:
        """A note about what it can find."""
        if self.language_model is None:
            return (
                f"{self.model}: patterns only; names need a model of English:"
                " python -m spacy download en_core_web_lg"
            )
        return f"{self.model} with {self.language_model}"


def _spacy_model() -> tuple[str | None, Any]:
    """Return the best installed model for English with its name; else a blank model."""
    try:
        import spacy
    except ImportError:
        raise _missing_presidio() from None
    name = next((one for one in _SPACY_MODELS if spacy.util.is_package(one)), None)
    nlp = spacy.blank(_LANGUAGE) if name is None else spacy.load(name)
    nlp.max_length = _LONGEST_TEXT
    return name, nlp


def _analyzer(nlp: Any) -> Any:
    import logging

    try:
        from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
        from presidio_analyzer.nlp_engine import SpacyNlpEngine
    except ImportError:
        raise _missing_presidio() from None
    logging.getLogger("presidio-analyzer").setLevel(
        logging.ERROR
    )  # hide warnings about unmapped kinds
    engine = SpacyNlpEngine()
    engine.nlp = {_LANGUAGE: nlp}  # its own way would fetch a model that is not there
    registry = RecognizerRegistry(supported_languages=[_LANGUAGE])
    registry.load_predefined_recognizers(languages=[_LANGUAGE], nlp_engine=engine)
    registry.remove_recognizer(_FETCHING_RECOGNIZER)
    return AnalyzerEngine(
        registry=registry,
        nlp_engine=engine,
        supported_languages=[_LANGUAGE],
        default_score_threshold=_MIN_SCORE,
    )


def _missing_presidio() -> MissingExtraError:
    return MissingExtraError(
        "Presidio is not installed",
        field="detector",
        hint='Install it: python -m pip install "satchel[presidio]"',
    )
