"""Ranges of options, which settings are checked against."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Dropout = Annotated[float, Field(ge=0.0, lt=1.0)]
Share = Annotated[float, Field(gt=0.0, le=1.0)]
ShareOrNone = Annotated[float, Field(ge=0.0, le=1.0)]
Smoothing = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
