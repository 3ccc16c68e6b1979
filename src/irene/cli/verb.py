"""A verb of the command: as typer has it, but no option is given twice without a word."""

from __future__ import annotations

from collections import Counter
from typing import Any

from typer.core import TyperCommand

from irene.errors import OptionError


class Verb(TyperCommand):
    """Refuses an option of one value that is given twice, of which the last would count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # as while a shell completes the line
            *_, given = self.make_parser(ctx).parse_args(args=list(args))
            for option, times in Counter(given).items():
                if times > 1 and _has_one_value(option):
                    raise OptionError(f"{option.opts[0]} is given {times} times: leave all but one out")
        return super().parse_args(ctx, args)


def _has_one_value(parameter: Any) -> bool:
    """Whether it is an option whose last value alone counts; a flag that only switches on says the same twice."""
    if parameter.param_type_name != "option" or parameter.multiple:
        return False
    return not parameter.is_flag or bool(parameter.secondary_opts)
