"""A network of its own for the process that tests, in which everything listens."""

import os
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fcntl import ioctl

from tests.controlplane.process import LIBC

_CLONE_NEWNET = 0x4000_0000
_SET_FLAGS, _SET_ADDRESS, _SET_MASK = 0x8914, 0x8916, 0x891C
_UP = 1


@contextmanager
def own_network(addresses: Iterable[str]) -> Iterator[None]:
    """Loopback with these further addresses, for this thread and all that it starts meanwhile.

    No way leads out of it.
    """
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _call("unshare", _CLONE_NEWNET)
        try:
            _raise_loopback(addresses)
            yield
        finally:
            _call("setns", before, _CLONE_NEWNET)
    finally:
        os.close(before)


def _call(name: str, *arguments: int) -> None:
    """A function of the C library that Python has only from 3.12 on."""
    assert LIBC is not None
    if getattr(LIBC, name)(*arguments) != 0:
        raise OSError(f"{name} fails")


def _raise_loopback(addresses: Iterable[str]) -> None:
    with socket.socket() as any_socket:
        ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))
        for number, address in enumerate(addresses):
            alias = f"lo:{number}".encode()
            for request, value in ((_SET_ADDRESS, address), (_SET_MASK, "255.255.255.255")):
                packed = socket.inet_aton(value)
                ioctl(
                    any_socket, request, struct.pack("16sH2x4s16x", alias, socket.AF_INET, packed)
                )
