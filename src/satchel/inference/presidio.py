"""Personal data as Microsoft Presidio finds it: numbers of more countries, and names by a model.

Nothing is fetched. A spaCy model for English is used where one is installed; without one Presidio's
patterns are what there is, and names are left to our own rules. Needs ``satchel[presidio]``.
Source: https://microsoft.github.io/presidio/supported_entities/
"""

import logging
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from satchel.errors import MissingExtraError
from satchel.screening.vendors import SensitiveSpan

_MODELS = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")
_LANGUAGE, _LONGEST = "en", 2**24
_LEAST_SCORE = 0.4
"""Below it stand patterns such as "any eight digits", which say little by themselves."""

_FETCHES = "EmailRecognizer"
"""It asks the network for a list of domains; our own rules find mail addresses."""

_KINDS = {
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
"""Times, groups, firms and addresses of pages: they tell of somebody only with something else."""

_OTHER = "id-number"
"""What else it knows are numbers that countries and firms give to people."""


class PresidioDetector:
    """Finds personal data in a text; see ``screen.redacting.Detector``.

    Raises:
        MissingExtraError: If Presidio is not installed.
    """

    def __init__(self) -> None:
        self.language_model, nlp = _language()
        self.model = f"presidio-analyzer {version('presidio-analyzer')}"
        self._analyzer = _analyzer(nlp)

    def __call__(self, text: str) -> Iterator[SensitiveSpan]:
        """Yield what is in a text, in any order and on top of each other."""
        for one in self._analyzer.analyze(text, language=_LANGUAGE):
            if one.entity_type not in _NOT_PERSONAL:
                yield SensitiveSpan(one.start, one.end, _KINDS.get(one.entity_type, _OTHER))

    @property
    def note(self) -> str:
        """What is to be told of what it can find."""
        if self.language_model is None:
            return (
                f"{self.model}: patterns only; names need a model of English:"
                " python -m spacy download en_core_web_lg"
            )
        return f"{self.model} with {self.language_model}"


def _language() -> tuple[str | None, Any]:
    """Return the best model of English that is installed, and its name; else a blank one."""
    try:
        import spacy
    except ImportError:
        raise _missing() from None
    name = next((one for one in _MODELS if spacy.util.is_package(one)), None)
    nlp = spacy.blank(_LANGUAGE) if name is None else spacy.load(name)
    nlp.max_length = _LONGEST
    return name, nlp


def _analyzer(nlp: Any) -> Any:
    try:
        from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
        from presidio_analyzer.nlp_engine import SpacyNlpEngine
    except ImportError:
        raise _missing() from None
    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)  # what it does not map, by kind
    engine = SpacyNlpEngine()
    engine.nlp = {_LANGUAGE: nlp}  # its own way would fetch a model that is not there
    registry = RecognizerRegistry(supported_languages=[_LANGUAGE])
    registry.load_predefined_recognizers(languages=[_LANGUAGE], nlp_engine=engine)
    registry.remove_recognizer(_FETCHES)
    return AnalyzerEngine(
        registry=registry,
        nlp_engine=engine,
        supported_languages=[_LANGUAGE],
        default_score_threshold=_LEAST_SCORE,
    )


def _missing() -> MissingExtraError:
    return MissingExtraError(
        "Presidio is not installed",
        field="detector",
        hint='Install it: python -m pip install "satchel[presidio]"',
    )
