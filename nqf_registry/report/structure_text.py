"""A(x) as lines of text, one a coupling: A[u_i, v_o] = 1/2 x_i."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from nqf_registry.couplings import Coupling, Rows
from nqf_registry.layer import Inputs, Layer, declares
from nqf_registry.report.structure_facts import samples_of, structure_of


def structure_lines(layer: Layer) -> list[str]:
    """The form of A(x), one line a coupling, in the letters of the layer's own specification.

    A coefficient that is an input carries the input's name; another one is c with a number, and its shape is given.

    Example:
        >>> import nqf_registry as nqf
        >>> structure_lines(nqf.default_registry().get("quadratic-network"))
        ['A[w_a, w_b] = x_a x_b']
    """
    x = samples_of(layer, 3)
    structure = structure_of(layer, x)
    lines, names = [], _Names(x)
    for term in structure.terms:
        if isinstance(term, Coupling):
            lines.append(_coupling(term, names))
        else:
            lines.append(
                f"A = an explicit {layer.n_params} × {layer.n_params} matrix"
                + ("" if declares(layer, "structure") else ", derived")
            )
    return lines + names.legend


class _Names:
    """Names for coefficients: the inputs' own, or c1, c2, … with a legend."""

    def __init__(self, x: Inputs) -> None:
        self.x, self.seen, self.legend = x, [], []

    def of(self, tensor: Tensor) -> str:
        for name, value in self.x.items():
            if value.shape == tensor.shape and torch.equal(value.to(tensor.dtype), tensor):
                return name
        for name, value in self.seen:
            if value.shape == tensor.shape and torch.equal(value, tensor):
                return name
        name = f"c{len(self.seen) + 1}"
        self.seen.append((name, tensor))
        by_sample = bool(tensor.ndim) and tensor.shape[0] == len(next(iter(self.x.values())))
        shape = ", ".join(["n", *map(str, tensor.shape[1:])] if by_sample else map(str, tensor.shape))
        self.legend.append(f"{name}: ({shape}), {'computed from the input' if by_sample else 'constant'}")
        return name


def _coupling(term: Coupling, names: _Names) -> str:
    left, right = _side(term.left, term.letters[0], names), _side(term.right, term.letters[-1], names)
    same = term.names[0] == term.names[1]
    factor = term.scale if same else term.scale / 2
    parts = [
        _indexed(names.of(c), word.replace("n", "")) for word, c in zip(term.letters[1:-1], term.coefficients, strict=True)
    ]
    number = _number(factor)
    value = " ".join(([] if number == "1" and parts else [number]) + parts) or "1"
    form = f"A[{left}, {right}] = {value}"
    if same and not _symmetric(term):
        form += ", symmetrised"
    outputs = term.output[1:]
    return form + (f"   for output {outputs}" if outputs else "")


def _symmetric(term: Coupling) -> bool:
    """Whether exchanging the two sides gives the same form whatever the coefficients: x_i x_j is, S_ij need not be."""
    left, right = term.letters[0], term.letters[-1]
    swap = str.maketrans(left + right, right + left)
    words = sorted((w.translate(swap), id(c)) for w, c in zip(term.letters[1:-1], term.coefficients, strict=True))
    kept = sorted((w, id(c)) for w, c in zip(term.letters[1:-1], term.coefficients, strict=True))
    return words == kept


def _side(side: str | Rows, letters: str, names: _Names) -> str:
    if isinstance(side, Rows):
        return _indexed(f"{side.block}[{names.of(side.index)}]", letters.replace("n", ""))
    return _indexed(side, letters)


def _indexed(name: str, letters: str) -> str:
    if not letters:
        return name
    return f"({name})_{letters}" if "_" in name else f"{name}_{letters}"


def _number(value: float) -> str:
    """A factor as a small fraction where it is one."""
    fraction = Fraction(value).limit_denominator(64)
    return str(fraction) if abs(float(fraction) - value) < 1e-12 * max(1.0, abs(value)) else f"{value:.6g}"
