"""The errors of the library: one small tree, each with the exit code that the command line gives it."""

from typing import Any

LONGEST = 500


def one_line(error: BaseException) -> str:
    r"""What an exception says, on one line and not too long; "" where it says nothing or its own ``__str__`` fails.

    Torch writes the C++ frames after the words "Exception raised from"; they help nobody who reads a message.

    >>> one_line(ValueError("two\nlines"))
    'two lines'
    """
    try:
        text = " ".join(str(error).partition("Exception raised from")[0].split())
    except KeyboardInterrupt:
        raise
    except BaseException:  # an exception of a plugin's own, which may even end the program in its __str__
        return ""
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def named(error: BaseException) -> str:
    """The class of an exception and what it says, on one line.

    >>> named(KeyError("k")), named(ValueError())
    ("KeyError: 'k'", 'ValueError')
    """
    text = one_line(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class NQFError(Exception):
    """Base of every error that the library raises on purpose.

    The message says what was expected, what came, and what to do. ``exit_code`` is what ``nqf`` returns: 2 for wrong use,
    3 where the work itself broke.
    """

    exit_code = 2


class InvalidInput(NQFError, ValueError):
    """An argument, a size or an option is not what the call expects."""


class UnknownKey(NQFError, LookupError):
    """No plugin registered what was asked for."""


class ContestedKey(NQFError):
    """Several plugins claim one key, so none of them has it."""


class PluginError(NQFError):
    """A plugin cannot be used: it failed at import, at registration or at validation."""


class LayerError(NQFError):
    """A layer breaks the contract of ``nqf.Layer``: its key, blocks, width, claims or methods."""


class GraphError(NQFError):
    """A composition is no valid graph: a cycle, a dangling port, two shapes that do not meet."""


class WorkFailed(NQFError):
    """The request was right but the work broke; base of the errors with exit code 3."""

    exit_code = 3


class Diverged(WorkFailed):
    """A training run left the finite numbers; ``run`` holds what was recorded before."""

    run: Any = None


class StorageError(WorkFailed):
    """A file could not be written or read back: no space, no permission, a damaged record."""
