"""Suggestions for a misspelt name."""

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence that names the closest known words, with a leading space, or "" where none is close.

    >>> did_you_mean("two-layer-mpl", ["two-layer-mlp", "linear-ssl"])
    " Did you mean 'two-layer-mlp'?"
    >>> did_you_mean("x", ["two-layer-mlp"])
    ''
    """
    import difflib  # only a wrong word pays for it

    known = sorted(known)
    lowered = {name.lower().replace("_", "-"): name for name in known}
    near = difflib.get_close_matches(word.lower().replace("_", "-"), sorted(lowered), n=3)
    if not near:
        return ""
    return f" Did you mean {' or '.join(repr(lowered[name]) for name in near)}?"
