"""Bounds of values in files; msgspec checks them when it decodes, and only then."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

LARGEST_AMOUNT = 2**53
"""The maximum amount; with it, the sum of all that a node may have does not overflow 64 bits."""

Count = Annotated[int, Meta(ge=0, le=LARGEST_AMOUNT)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Ratio = Annotated[float, Meta(ge=0, le=1e9)]
Usage = Annotated[float, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=-1e9, le=1e9)]
Time = Annotated[datetime, Meta(tz=True)]
