"""What a model is, in a few words for reports, the service and result files."""

from __future__ import annotations

from tuckerkg.config.settings import Settings

CORES = {
    "question": "CP, Eq. (7), relations as the question sees them",
    "cp": "CP, Eq. (7)",
    "tucker": "full, Eq. (3)",
}
HIDDEN = {"own": "the fact that is asked for", "pair": "every edge between head and answer"}


def describe_model(settings: Settings) -> dict[str, str]:
    """Names and values of a table; a blend, which has no model of its own, has none."""
    if settings.kind == "blend":
        return {}
    if settings.kind == "paths":
        paths = settings.paths
        return {
            "model": "messages from the question",
            "layers": str(paths.layers),
            "width": str(paths.width),
            "core": CORES[paths.core],
            "hidden in training": HIDDEN[paths.hide],
        }
    return {
        "encoder": settings.encoder.name,
        "decoder": settings.decoder.name,
        "width": f"{settings.model.dim} (relations {settings.model.relation_dim})",
    }


def component_names(settings: Settings) -> tuple[str, str]:
    """Encoder and decoder as tables of results name them; what has neither is named by its kind."""
    if settings.kind == "embedding":
        return settings.encoder.name, settings.decoder.name
    return settings.kind, "none"
