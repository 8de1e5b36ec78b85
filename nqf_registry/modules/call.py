"""A module as a function of its parameters: called without being touched, in any dtype, with one tensor of outputs (n, k)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nqf_registry.errors import InvalidInput

Output = Callable[[Any], Tensor] | int | str | None


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """f(parameters, x) of a module.

    Attributes:
        module: as it was given, unwrapped where it was compiled.
        names: of its inputs: "0", "1", … by position, or those of keywords.
        positional: how many are by position.
        output: which of several outputs; see :func:`module_call`.
    """

    module: nn.Module
    names: tuple[str, ...]
    positional: int
    output: Output

    @property
    def parameters(self) -> dict[str, Tensor]:
        """By name, a shared one once."""
        return {name: p.detach() for name, p in self.module.named_parameters()}

    def __call__(self, parameters: Mapping[str, Tensor], x: Mapping[str, Tensor]) -> Tensor:
        """Outputs (n, k); buffers and what is not given are taken in the dtype of the parameters."""
        out = self.shaped(parameters, x)
        return out.reshape(len(out), -1)

    def shaped(self, parameters: Mapping[str, Tensor], x: Mapping[str, Tensor]) -> Tensor:
        """The same, in the shape that the module gives."""
        dtype = next((t.dtype for t in parameters.values()), torch.float32)
        state = {name: _like(t, dtype) for name, t in self.module.named_parameters() if name not in parameters}
        # a buffer is copied: a module may write to it
        state |= {name: _like(t, dtype).clone() for name, t in self.module.named_buffers()}
        args = tuple(x[name] for name in self.names[: self.positional])
        kwargs = {name: x[name] for name in self.names[self.positional :]}
        with _no_fast_path():
            given = torch.func.functional_call(self.module, {**state, **parameters}, args, kwargs)
        out = self._chosen(given)
        n = len(next(iter(x.values())))
        if not isinstance(out, Tensor) or out.ndim == 0 or out.shape[0] != n:
            what = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise InvalidInput(
                f"{type(self.module).__name__} must give outputs with the leading sample axis n = {n} of the example, got "
                f"{what}; output= takes a number, a name or a function that picks or rearranges them."
            )
        return out

    def _chosen(self, given: Any) -> Any:
        if callable(self.output):
            return self.output(given)
        if self.output is not None:
            return given[self.output]
        while isinstance(given, tuple | list) and given:
            given = given[0]
        return given


@contextlib.contextmanager
def _no_fast_path() -> Iterator[None]:
    """Keeps torch's transformer modules from their fused inference kernels, which have no derivatives."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def module_call(module: object, example: Any, output: Output = None) -> tuple[ModuleCall, dict[str, Tensor]]:
    """A module as a function, and its example inputs by name.

    Args:
        module: an nn.Module; one that ``torch.compile`` made is unwrapped.
        example: its inputs with leading sample axis n: a tensor, a tuple of them, or a dict of keywords.
        output: which of several outputs: a position, a name, or a function of what the module gives; by default the first.

    Raises:
        InvalidInput: this is no module, a class of one, or the example is no tensors with one leading axis.
    """
    if isinstance(module, type) or not isinstance(module, nn.Module):
        what = f"the class {module.__name__}; make an instance" if isinstance(module, type) else type(module).__name__
        raise InvalidInput(f"from_module takes an instance of torch.nn.Module, got {what}.")
    module = getattr(module, "_orig_mod", module)
    assert isinstance(module, nn.Module)
    lazy = [name for name, p in module.named_parameters() if isinstance(p, nn.parameter.UninitializedParameter)]
    if lazy:
        raise InvalidInput(
            f"{', '.join(lazy)} of {type(module).__name__} have no shape yet: call the module once on the example."
        )
    empty = [name for name, p in module.named_parameters() if p.numel() == 0]
    if empty:
        raise InvalidInput(
            f"{', '.join(empty)} of {type(module).__name__} have a dimension of size 0, so there is nothing to expand in: give "
            "every dimension a size of 1 or more."
        )
    if isinstance(example, Mapping):
        x, positional = {str(name): t for name, t in example.items()}, 0
    else:
        parts = example if isinstance(example, tuple | list) else (example,)
        x, positional = {str(i): t for i, t in enumerate(parts)}, len(parts)
    wrong = [name for name, t in x.items() if not isinstance(t, Tensor) or t.ndim == 0]
    if wrong or not x or len({len(t) for t in x.values()}) > 1 or not len(next(iter(x.values()))):
        shapes = {name: tuple(t.shape) if isinstance(t, Tensor) else type(t).__name__ for name, t in x.items()}
        raise InvalidInput(
            f"example must be the inputs of the module as tensors with one leading sample axis: a tensor, a tuple, or a dict "
            f"of keywords; got {shapes or 'nothing'}."
        )
    return ModuleCall(module, tuple(x), positional, output), x


def _like(t: Tensor, dtype: torch.dtype) -> Tensor:
    return t.detach().to(dtype) if t.is_floating_point() else t.detach()
