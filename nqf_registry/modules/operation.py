"""One operation of a traced module, as the rules see it: operands with their axes, the result, and all factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nqf_registry.modules.axes import Axes, Dim

Dims = list[Dim]

POSITION = "an operation picks from it by position ({name})"
FIXED_BY = "it is handled by position in {name}"


class Call:
    """One operation: its operands with their axes, its result, and the axes of the module.

    Attributes:
        axes: the factors of all axes.
        name: of the operation, such as ``mm``.
        args: its arguments by position; tensors among them as values.
        kwargs: its arguments by name.
        result: what it gave.
    """

    def __init__(self, axes: Axes, name: str, args: Sequence[Any], kwargs: dict[str, Any], result: Any, known: dict) -> None:
        self.axes, self.name, self.args, self.kwargs, self.result = axes, name, args, kwargs, result
        self._known = known

    def dims(self, tensor: Any) -> Dims:
        """The axes of an operand."""
        return list(self._known[id(tensor)])

    def at(self, position: int, default: Any = None) -> Any:
        """An argument by position."""
        return self.args[position] if len(self.args) > position else default

    def fix(self, dim: Dim) -> Dim:
        """Marks an axis as handled by position; itself."""
        self.axes.fix(dim, FIXED_BY.format(name=self.name))
        return dim

    def fresh(self, size: int) -> Dim:
        """A new axis that cannot be permuted."""
        return self.axes.new(size, FIXED_BY.format(name=self.name))
