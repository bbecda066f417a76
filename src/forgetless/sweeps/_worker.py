"""A worker process: reads batches from standard input, writes what became of them to standard output.

It is started with ``python -c`` rather than by multiprocessing, so that the user's script is not run again in it. A
thread waits for input while another computes; the end of input, which the system makes when the driver dies, ends both.
"""

import contextlib
import os
import pickle
import queue
import signal
import struct
import threading
from typing import IO, Any

from forgetless.reporting.text import in_words

HEAD = struct.Struct("<Q")
"""What precedes every message: the number of its bytes."""


def send(stream: IO[bytes], message: bytes) -> None:
    """Write one message."""
    stream.write(HEAD.pack(len(message)) + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Return the next message, None where there is none any more or only a part of one."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    message = stream.read(HEAD.unpack(head)[0])
    return message if len(message) == HEAD.unpack(head)[0] else None


def main() -> None:
    """Work until the driver closes the input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the driver, which ends the workers
    # Copies, which programs started by the user's functions do not get: those read nothing, and print to where errors
    # go. What forks keeps them; there they lead nowhere, so that nobody else answers or holds the driver up.
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    os.register_at_fork(
        after_in_child=lambda: [os.dup2(nowhere, each.fileno(), inheritable=False) for each in (questions, answers)]
    )
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def listen() -> None:
        while (message := receive(questions)) is not None:
            inbox.put(message)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        _work(inbox, answers)


def _work(inbox: "queue.SimpleQueue[bytes]", answers: IO[bytes]) -> None:
    try:
        from forgetless._core.compiled import has_numba
        from forgetless.sweeps.evaluate import evaluate

        if has_numba() and os.environ.get("FORGETLESS_NUMBA") != "never":
            import numba  # noqa: F401 - now, so that the first batch does not take the blame for its time
        sweep: Any = pickle.loads(inbox.get())
    except BaseException as error:
        send(answers, pickle.dumps(in_words(error)))
        raise
    send(answers, pickle.dumps(None))
    while True:
        number, batch = pickle.loads(inbox.get())
        send(answers, pickle.dumps((number, evaluate(sweep, batch))))
