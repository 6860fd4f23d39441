"""What somebody asks of rehydration, with the settings for what they leave open."""

from collections.abc import Sequence

import msgspec

from satchel.actions.configured.sections import RehydrateSettings
from satchel.actions.recalling import trust_from
from satchel.recall.query import COMPONENTS
from satchel.rehydrate.asked import Asked, Similarity, Weights
from satchel.rehydrate.models import profile_of


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked for; the configuration says what is left open."""

    task: str = ""
    """What the model is going to do."""

    budget: int | None = None
    """Tokens of the whole text."""

    model: str | None = None
    """The model it is for, such as ``gpt-4o`` or ``claude``."""

    style: str | None = None
    """``structured`` or ``narrative``."""

    framing: str | None = None
    """``encoded`` or ``pam-1.0``."""

    enforce: str | None = None
    """``outside``, ``all``, ``shapes`` or ``nothing``."""

    similarity: Similarity = "recall"
    """What is compared with the task: words and meaning, or cosines of vectors alone."""

    relevance: float | None = None
    """Relevance from 0 to 1 below which a memory is left out."""

    components: Sequence[str] = ()
    trust: str | None = None
    """How far a memory must be trusted at least."""

    user: str | None = None
    agent: str | None = None
    run: str | None = None
    app: str | None = None
    any_time: bool = False
    """Whether memories of a time that the task names rank no higher."""

    system: str | None = None
    """The system prompt that messages begin with."""

    summariser: str | None = None
    """``sentences`` or ``openai``."""


def asked_of(wanted: Wanted, settings: RehydrateSettings) -> Asked:
    """Return what is asked of the pipeline.

    Raises:
        UsageError: If something cannot be meant.
    """
    model = wanted.model if wanted.model is not None else settings.model
    usual: int = getattr(settings, f"budget_{profile_of(model).name}")
    least = settings.summarised if wanted.relevance is None else wanted.relevance
    return Asked(
        task=wanted.task,
        budget=usual if wanted.budget is None else wanted.budget,
        model=model,
        style=wanted.style or settings.style,  # type: ignore[arg-type]  # looked at there
        framing=wanted.framing or settings.framing,  # type: ignore[arg-type]  # idem
        enforce=wanted.enforce or settings.enforce,  # type: ignore[arg-type]  # idem
        similarity=wanted.similarity,
        weights=Weights(
            recency=settings.weight_recency,
            salience=settings.weight_salience,
            similarity=settings.weight_similarity,
            depth=settings.weight_depth,
        ),
        verbatim=settings.verbatim if wanted.relevance is None else max(settings.verbatim, least),
        summarised=least,
        max_age=settings.max_age,
        salience={name: getattr(settings, f"salience_{name}") for name in COMPONENTS},
        untrusted_salience=settings.salience_outside,
        components=frozenset(wanted.components) or COMPONENTS,
        trust=trust_from(wanted.trust, "trust"),
        user=wanted.user,
        agent=wanted.agent,
        run=wanted.run,
        app=wanted.app,
        times=not wanted.any_time,
        system=wanted.system,
    )
