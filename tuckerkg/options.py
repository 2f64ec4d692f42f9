"""Ranges that component options share; settings are checked against them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

Dropout = Annotated[float, Field(ge=0.0, lt=1.0)]
Share = Annotated[float, Field(gt=0.0, le=1.0)]
Power = Annotated[float, Field(ge=0.0, le=1.0)]
Smoothing = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Start = Literal["xavier", "identity"]
"""How an encoder's layers begin: at random, or so that they pass entities on that were trained without them."""
