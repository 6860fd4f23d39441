"""What options ask of the pipeline, with the settings for what they leave open."""

from satchel.actions.configured.sections import RehydrateSettings
from satchel.actions.recalling import trust_from
from satchel.actions.waking.options import RehydrateOptions
from satchel.ports.operations import texts
from satchel.recall.query import COMPONENTS
from satchel.rehydrate.asked import Asked, Weights
from satchel.rehydrate.models import profile_of


def asked_of(options: RehydrateOptions, settings: RehydrateSettings) -> Asked:
    """Return what is asked of the pipeline.

    Raises:
        UsageError: If an option is out of range.
    """
    model = options.model if options.model is not None else settings.model
    usual: int = getattr(settings, f"budget_{profile_of(model).name}")
    least = settings.summarised if options.relevance is None else options.relevance
    return Asked(
        task=options.task,
        budget=usual if options.budget is None else options.budget,
        model=model,
        style=options.style or settings.style,
        framing=options.framing or settings.framing,
        enforce=options.enforce or settings.enforce,
        similarity=options.similarity,
        weights=Weights(
            recency=settings.weight_recency,
            salience=settings.weight_salience,
            similarity=settings.weight_similarity,
            depth=settings.weight_depth,
        ),
        verbatim=settings.verbatim if options.relevance is None else max(settings.verbatim, least),
        summarised=least,
        max_age=settings.max_age,
        salience={name: getattr(settings, f"salience_{name}") for name in COMPONENTS},
        untrusted_salience=settings.salience_outside,
        components=frozenset(texts(options.type)) or COMPONENTS,
        trust=trust_from(options.trust, "trust"),
        user=options.user,
        agent=options.agent,
        run=options.run,
        app=options.app,
        times=not options.any_time,
        system=options.system,
    )
