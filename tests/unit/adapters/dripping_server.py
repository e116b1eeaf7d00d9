"""A server on loopback whose answer comes byte by byte and never ends."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from threading import Event, Thread

LONGEST_SECONDS = 30.0
PAUSE_SECONDS = 0.02
HEADS = {
    "a header": b"HTTP/1.1 200 OK\r\n",
    "the size of a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
}
"""What comes at once, by what never ends after it."""


@contextmanager
def dripping(head: bytes) -> Iterator[str]:
    """Its URL; to each request it sends the head, and then zeros."""
    stopped = Event()

    def serve(server: socket.socket) -> None:
        for _ in count():
            with suppress(OSError):
                client, _ = server.accept()
                Thread(target=drip, args=(client,), daemon=True).start()
            if stopped.is_set():
                return

    def drip(client: socket.socket) -> None:
        with client, suppress(OSError):  # the client gives up: that is what is tested
            client.recv(2**16)
            client.sendall(head)
            for _ in range(round(LONGEST_SECONDS / PAUSE_SECONDS)):
                client.sendall(b"0")
                if stopped.wait(PAUSE_SECONDS):
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=serve, args=(server,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            stopped.set()
            with suppress(OSError):  # wakes the thread that accepts
                server.shutdown(socket.SHUT_RDWR)
