"""What a command line says to an option that it does not have but that is a setting."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from tuckerkg.errors import TuckerkgError


class HintingCommand(TyperCommand):
    """A verb that names the setting behind an unknown option: ``--epochs 3`` is ``--set train.epochs=3``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As usual; an unknown option that is a setting's name is answered with that name."""
        given = list(args)  # parsing empties it
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            option = getattr(error, "option_name", None)  # only what stands for an unknown option has one
            hint = self._hint(option, given) if option else None
            if hint is None:
                raise
            raise TuckerkgError(f"there is no option {option}; {hint}") from error

    def _hint(self, option: str, args: list[str]) -> str | None:
        if not any("--set" in parameter.opts for parameter in self.params):
            return None
        from tuckerkg.config.reference import settings_reference

        name = option.lstrip("-").replace("-", "_")
        keys = {entry.key for entry in settings_reference() if entry.key.rpartition(".")[2] == name}
        keys = {key for key in keys if not key.startswith("phase.")}  # one of a list, which a file is for
        if not keys:
            return None
        place = args.index(option) + 1 if option in args else len(args)
        value = args[place] if place < len(args) and not args[place].startswith("-") else "VALUE"
        return "a setting is given as " + " or ".join(f"--set {key}={value}" for key in sorted(keys))
