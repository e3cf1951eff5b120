"""`wmmadiag`: run a command, and end every way it can end with one clear message and an exit code.

Exit codes: 0 all passed; 1 a kernel is wrong; 2 usage or configuration; 3 could not decide; 70 an internal error;
129 the terminal went away; 130 interrupted; 141 the reader of the output went away; 143 terminated. Only a command that
has come to its end and says so makes it 0.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

INTERNAL_ERROR = 70  # sysexits.h, EX_SOFTWARE
INTERRUPTED = 130
BROKEN_PIPE = 141
_ENDED_BY_SIGNALS = {signal.SIGTERM: (143, "terminated"), signal.SIGHUP: (129, "the terminal went away")}
_LACKING = "the system has no more {}\nnext: take a smaller case, or raise the limit (ulimit -a)"


class _Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, unwound as an interrupt is: children end, temporary files go."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = signal.Signals(number)


def _terminate(number: int, _frame: object) -> None:
    raise _Terminated(number)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    if argv is None:
        # References are many small products: threads that spin for each other cost ten times what they save.
        for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(variable, "1")
        signal.signal(signal.SIGTERM, _terminate)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # nohup has it ignored
            signal.signal(signal.SIGHUP, _terminate)
    # Everything else is imported in here, so that an interrupt while it is being imported ends in order, too.
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        if argv is None:
            _give_up_full_streams()
        return code
    except KeyboardInterrupt as why:
        if argv is None:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # the end is near: a second one must not show a traceback
        code, word = (INTERRUPTED, "interrupted")
        if isinstance(why, _Terminated):
            code, word = _ENDED_BY_SIGNALS[why.number]
        with contextlib.suppress(OSError):  # a terminal that went away
            sys.stderr.write("\n".join([f"wmmadiag: {word}", *map(str, why.args), ""]))
        if argv is None:
            # Everything was unwound on the way here; the interpreter's own end can die of SIGINT instead of exiting.
            from wmmadiag.processes.scratch import leave

            leave()
            _flush()
            os._exit(code)
        return code
    except BrokenPipeError:
        # Nobody reads on: leave in silence, and give the interpreter's last flush somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _lacks_memory() -> bool:
    """Whether a limit leaves no memory for a product of matrices: OpenBLAS then ends the process with status 1, which
    here says that a kernel is wrong. So a copy of this process is asked first, and what it takes then is kept."""
    from wmmadiag.errors import memory_is_limited
    from wmmadiag.processes.apart import apart
    from wmmadiag.processes.child import ChildEnded

    if not memory_is_limited():
        return False
    try:
        apart(_product)
        _product()
    except (ChildEnded, OSError):
        return True
    except Exception:  # it is raised again, and told, where it belongs
        return False
    return False


def _product() -> None:
    import numpy as np

    square = np.ones((256, 256))
    _ = square @ square


def _run(argv: list[str]) -> int:
    from wmmadiag.cli.console import Console, tolerant_streams
    from wmmadiag.cli.dispatch import dispatch
    from wmmadiag.errors import WmmadiagError, lacking_of, uninstalled_of, unreachable_of
    from wmmadiag.processes.waiting import long_waits, tell_by

    console = Console()
    if _lacks_memory():
        console.error(_LACKING.format("memory"))
        return 3
    tell_by(console.progress)
    try:
        tolerant_streams()
        code = dispatch(argv, console)
        if long_waits() and sys.stderr.isatty() and not console.quiet:
            console.note(f"of this, the compiler took {long_waits():.1f} s")
        return code
    except WmmadiagError as error:
        console.error(error)
        _traceback()
        return error.exit_code
    except SystemExit as end:  # whoever raised it, no command did: it is no verdict
        console.error(f"internal error: something ended the command with status {end.code!r}")
        return INTERNAL_ERROR
    except BrokenPipeError:
        raise
    except Exception as error:
        lacking = lacking_of(error)
        if lacking:
            console.error(_LACKING.format(lacking))
            return 3
        uninstalled = uninstalled_of(error)
        if uninstalled:
            console.error(uninstalled)
            _traceback()
            return 2
        unreachable = unreachable_of(error)
        if unreachable:
            console.error(f"{unreachable}\nnext: check the name, and who may read and write there")
            _traceback()
            return 2
        what = f"{type(error).__name__}: {error}".strip().rstrip(":")
        console.error(
            f"internal error, a bug of wmmadiag: {what}\n"
            "next: please report it with your command, the kernel and the output of `wmmadiag doctor`"
            " (WMMADIAG_DEBUG=1 shows where it happened)"
        )
        _traceback()
        return INTERNAL_ERROR
    finally:
        tell_by(None)
        console.clear()


def _give_up_full_streams() -> None:
    """What cannot be written by now never will: the interpreter's last flush must not change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            raise
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def _traceback() -> None:
    """The exception being handled, for those who ask for it."""
    if os.environ.get("WMMADIAG_DEBUG") == "1":
        import traceback

        traceback.print_exc()


if __name__ == "__main__":
    sys.exit(main())
