"""For what nodes are drained, and how far that may go: GpuFragmentation as planning reads it."""

import msgspec


class Reserve(msgspec.Struct, frozen=True, gc=False):
    """Room that is kept free without a pod that waits for it: `nodes` nodes with `gpus` idle GPUs.

    With a `domain`, all of them are in one placement domain of this label, level or group. Only
    pods of at most this `priority` leave for it. `place` is where it is written, as
    `FILE:LINE: key.path`.
    """

    gpus: int
    nodes: int = 1
    domain: str = ""
    priority: int = 0
    place: str = ""

    def __str__(self) -> str:
        where = f" in one {self.domain}" if self.domain else ""
        return f"reserve of {self.gpus} GPUs on {self.nodes} nodes{where}"


class GpuDrainRules(msgspec.Struct, frozen=True):
    """Pods that wait for GPUs, and how much may be disturbed for them.

    A waiting pod counts if its namespace is one of `namespaces` or its priority is at least
    `least_priority`, once it has been unschedulable for `pending_seconds`. A drain ends after
    `longest_seconds`, whatever has landed. It makes at most `most_moves`; all drains for the pods
    of one namespace make at most `daily_moves` within a day, and so do those for reserves.
    """

    namespaces: tuple[str, ...] = ()
    least_priority: int | None = None
    pending_seconds: int = 300
    reserves: tuple[Reserve, ...] = ()
    longest_seconds: int = 3600
    most_moves: int = 40
    daily_moves: int = 100
