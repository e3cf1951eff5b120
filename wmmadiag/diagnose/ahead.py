"""Changes of a source that are listed in a copy of this process while its further cases run.

Listing and weighing needs the source alone, and takes as long as a case or two.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from wmmadiag.diagnose.evidence import ChangeListing
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.processes.apart import Copy
from wmmadiag.processes.child import ChildEnded


class ListedAhead:
    """What one question for changes comes to, as soon as it is there.

    Args:
        asked: the question that is to be expected.
    """

    def __init__(self, asked: ChangeListing) -> None:
        self._asked = asked
        self._copy = Copy(lambda _: asked.weighed())
        self._pool = ThreadPoolExecutor(1)
        self._answer: Future[list[Ranked]] | None = None

    def begin(self) -> None:
        """Have it answered.

        Raises:
            OSError: the system makes no more processes.
        """
        self._copy.begin()
        self._answer = self._pool.submit(self._copy.ask, None)

    def taken(self, asked: ChangeListing) -> list[Ranked] | None:
        """The answer, for which is waited; None where another question is asked, or the copy is gone. Given once."""
        answer, self._answer = self._answer, None
        if answer is None:
            return None
        try:
            return answer.result() if asked == self._asked else None
        except (ChildEnded, OSError):
            return None
        finally:
            self.stop()

    def stop(self) -> None:
        """Nobody asks any more."""
        self._copy.stop()
        self._pool.shutdown(wait=False)
