"""What the configuration of a Volcano scheduler says about the scores that it gives nodes."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from desched.model.bounds import Count
from desched.model.names import Instead, Plain


class VolcanoConfiguration(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The weights that the plugins nodeorder and binpack have by it; 0 if they are off.

    `weights` are by the arguments that set them. With `packs_others`, binpack counts more resources
    than CPU and memory. The plugins of `further` may give points, too. `unclear` is why what it
    says is not known; then the rest is empty.
    """

    weights: Mapping[Plain, Count] = {}
    packs_others: bool = False
    further: tuple[Plain, ...] = ()
    unclear: Annotated[str, Instead("it cannot be read")] = ""
