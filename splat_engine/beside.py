"""Work in a second process, beside what keeps this one's only Python thread busy: the import of torch.

That import takes more than a second of one core, and threads of the same process would wait for it. A fork needs no start
of its own and knows all that is known here. It is made on Linux alone: elsewhere libraries of the system do not bear it,
and a process that begins anew would import for as long as it saves.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pickle
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Generic, NoReturn, TypeVar

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
IsAsked = Callable[[], bool]


def can_split(threads: int) -> bool:
    """Tells whether work beside this process is safe, and of use: on Linux, before torch, with a second core to run on.

    Args:
        threads: Most cores that shall be used.
    """
    alone = sys.platform == "linux" and "torch" not in sys.modules and threading.active_count() == 1
    return alone and min(threads, len(os.sched_getaffinity(0))) > 1


class Beside(Generic[Result]):
    """A child that works until it is asked; as a context it is gone at the end, asked or not.

    The child has none of this process's files: it holds no lock and keeps no reader waiting should this process die.

    Args:
        work: What the child does. It is given a function that tells whether the result is being waited for; what it
            returns is pickled.
    """

    def __init__(self, work: Callable[[IsAsked], Result]) -> None:
        asked_reader, self._asked = os.pipe()
        self._result, result_writer = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            _be_child(work, asked_reader, result_writer)
        os.close(asked_reader)
        os.close(result_writer)

    def result(self) -> Result | None:
        """Waits for the result, once; None if the child failed, of which the log then tells."""
        os.close(self._asked)
        self._asked = -1
        with os.fdopen(os.dup(self._result), "rb") as stream:
            try:
                result, failure = pickle.load(stream)
            except (EOFError, pickle.UnpicklingError) as error:
                result, failure = None, f"{type(error).__name__}: {error}"
        if failure:
            logger.info("The work beside the import of torch is done again: %s", failure)
        return result  # type: ignore[no-any-return]

    def __enter__(self) -> Beside[Result]:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the child, if it has not ended yet."""
        for descriptor in (self._asked, self._result):
            if descriptor >= 0:
                os.close(descriptor)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)


def _be_child(work: Callable[[IsAsked], object], asked: int, result: int) -> NoReturn:
    """Works, answers and ends, without anything that the parent would do at its end."""
    try:
        gc.disable()
        logging.disable(logging.CRITICAL)
        asked, result = _close_all_but(asked, result)

        def is_asked() -> bool:
            return bool(select.select([asked], [], [], 0)[0])  # readable once the other end is closed

        with os.fdopen(result, "wb") as stream:
            pickle.dump(_outcome(work, is_asked), stream, protocol=pickle.HIGHEST_PROTOCOL)
    finally:
        os._exit(0)


def _outcome(work: Callable[[IsAsked], object], is_asked: IsAsked) -> tuple[object, str]:
    """(result, "") or (None, what happened)."""
    try:
        return work(is_asked), ""
    except Exception:
        return None, traceback.format_exc()


def _close_all_but(asked: int, result: int) -> tuple[int, int]:
    """Closes all files but two, which become 3 and 4; nothing comes from stdin and goes to stdout or stderr."""
    asked, result = os.dup2(asked, _OUT_OF_THE_WAY), os.dup2(result, _OUT_OF_THE_WAY + 1)
    empty = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(empty, descriptor)
    kept = os.dup2(asked, 3), os.dup2(result, 4)
    os.closerange(5, os.sysconf("SC_OPEN_MAX"))
    return kept


_OUT_OF_THE_WAY = 200
