"""The closed form of a measured A(x): identities, constants and features of the inputs, in place of numbers.

Each pair of coupled blocks is a tensor over samples, output axes and the axes of both blocks. Axes that are equal wherever it
is not zero share a letter (a Kronecker identity), axes that it does not depend on are dropped, and what is left is held against
features of the inputs. What is recognised is put together again and must be A(x).

Source: arXiv 2608.13335, Table 3 and appendix A, for the forms to be expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from math import isclose

import torch
from torch import Tensor

from nqf_registry.couplings import layout
from nqf_registry.layer import Layer
from nqf_registry.modules.features import Feature, features
from nqf_registry.reached import active_ranges
from nqf_registry.structure import Structure, quadratic

EQUAL = 1e-9  # two numbers that are one, relative to the largest entry
LETTERS = "abcdefghijklmopqrstuvwxyz"  # n is the sample axis
CONSTANTS = 64  # a tensor of at most so many numbers may stand in the code


@dataclass(frozen=True, eq=False)
class Coefficient:
    """One tensor of a coupling.

    Attributes:
        word: its letters.
        code: a Python expression of ``x``, the inputs by name, and ``like``, the first of them.
        value: the tensor.
        text: as it is printed; empty where it only selects a slice or repeats along an axis.
    """

    word: str
    code: str
    value: Tensor
    text: str = ""


@dataclass(frozen=True, eq=False)
class Term:
    """One coupling in closed form, scale · Σ left·coefficients·right.

    Attributes:
        left, right: names of the blocks, with the slices of packed ones that are coupled.
        operands: names of the blocks alone.
        words: letters of the left block and of the right one.
        output: letters of the output, n first.
        coefficients: the tensors between the blocks.
        scale: of the form.
        residual: of the match, relative.
    """

    left: str
    right: str
    operands: tuple[str, str]
    words: tuple[str, str]
    output: str
    coefficients: tuple[Coefficient, ...]
    scale: float
    residual: float

    @property
    def spec(self) -> str:
        """The einsum of :func:`nqf_registry.quadratic`."""
        return ",".join((self.words[0], *(c.word for c in self.coefficients), self.words[1])) + "->" + self.output

    def structure(self) -> Structure:
        """As a structure on the inputs that it was recognised on."""
        left, right = self.operands
        return quadratic(self.spec, left, *(c.value for c in self.coefficients), right, scale=self.scale)

    def same(self, other: Term) -> bool:
        """Whether another term is this one, to rounding of its factor."""
        codes = [c.code for c in self.coefficients] == [c.code for c in other.coefficients]
        return codes and self.spec == other.spec and self.operands == other.operands and isclose(self.scale, other.scale)

    def __str__(self) -> str:
        same = self.operands[0] == self.operands[1]
        factor = self.scale if same else self.scale / 2
        written = " ".join(c.text for c in self.coefficients if c.text) or "1"
        size = number_text(abs(factor))
        lead = "-" if factor < 0 else ""
        body = written if size == "1" else size if written == "1" else f"{size} {written}"
        shared = [a for a in self.words[0] if a in self.words[1] and not any(a in c.word for c in self.coefficients)]
        identity = (" I" if written == "1" else " ⊗ I") * bool(shared)
        return f"A[{self.left}, {self.right}] = {lead}{body}{identity}"

    def code(self, names: Mapping[str, str] | None = None) -> str:
        """The call that makes it, of inputs ``x`` and ``like``, the first of them; ``names`` are other ones for the blocks."""
        left, right = ((names or {}).get(name, name) for name in self.operands)
        parts = [f'"{self.spec}"', repr(left), *(c.code for c in self.coefficients), repr(right)]
        scale = "" if self.scale == 1.0 else f", scale={self.scale!r}"
        return f"nqf.quadratic({', '.join(parts)}{scale})"


@dataclass(frozen=True, eq=False)
class Recognised:
    """A closed form of A(x), as far as there is one.

    Attributes:
        terms: the couplings with a closed form.
        rest: the pairs of blocks without one, as text.
        residual: of all terms together against A(x), relative to its largest entry.
    """

    terms: tuple[Term, ...]
    rest: tuple[str, ...]
    residual: float

    @property
    def complete(self) -> bool:
        """Whether the terms are all of A(x)."""
        return bool(self.terms) and not self.rest and self.residual <= EQUAL

    def agreed(self, other: Recognised) -> Recognised:
        """What was also found on other inputs: a few inputs may allow more than one form."""
        kept = tuple(term for term in self.terms if any(term.same(found) for found in other.terms))
        lost = tuple(f"A[{a}, {b}]" for a, b in (term.operands for term in self.terms if term not in kept))
        return Recognised(kept, tuple(dict.fromkeys((*self.rest, *other.rest, *lost))), max(self.residual, other.residual))

    def __str__(self) -> str:
        return "\n".join([*map(str, self.terms), *(f"{pair}: no closed form is known here" for pair in self.rest)])


def recognise(layer: Layer, x: Mapping[str, Tensor], A: Tensor, outputs: tuple[int, ...]) -> Recognised:
    """Looks for a closed form.

    Args:
        layer: whose A(x) it is.
        x: inputs, three samples or more.
        A: (n, k, p, p), measured on them.
        outputs: shape of the outputs of one sample, k numbers in all.

    Example:
        >>> import torch, nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", n_in=3, n_out=2)
        >>> x = layer.sample(4, torch.Generator().manual_seed(0))
        >>> print(recognise(layer, x, nqf.expand(layer, x).structure, (2,)))
        A[u, v] = 1/2 x
    """
    blocks, slices = layer.blocks(), layout(layer.blocks())
    size = float(A.abs().max()) if A.numel() else 0.0
    windows = {shape[-count:] for shape in blocks.values() for count in (1, 2, 3) if len(shape) > count}
    known = features(x, windows, {s for shape in blocks.values() for s in shape})
    names, terms, rest = list(blocks), [], []
    for i, left in enumerate(names):
        for right in names[i:]:
            T = A[..., slices[left], slices[right]].reshape(len(A), *outputs, *blocks[left], *blocks[right])
            if size and float(T.abs().max()) > EQUAL * size:
                shape = (len(outputs), len(blocks[left]))
                # a slice may be zero at these inputs only, as that of a token not seen: whole blocks first
                tries = ((False, False), (True, True), (False, True))
                found = (_term(T, left, right, shape, known, size, trim, constants) for trim, constants in tries)
                term = next((t for t in found if t is not None), None)
                if term is None:
                    rest.append(f"A[{left}, {right}]")
                else:
                    terms.append(term)
    residual = 0.0
    if terms:
        couplings = tuple(coupling for t in terms for coupling in t.structure().terms)
        residual = float((Structure(couplings, dict(blocks)).dense(torch.float64) - A).abs().max()) / size
    return Recognised(tuple(terms), tuple(rest), residual)


def _term(
    T: Tensor, left: str, right: str, axes_of: tuple[int, int], known: list[Feature], size: float, trim: bool, constants: bool
) -> Term | None:
    """One pair of blocks as a coupling, or None.

    Args:
        T: (n, *outputs, *left, *right).
        left: name of the first block.
        right: of the second.
        axes_of: how many axes the outputs and the left block have.
        known: features to try.
        size: the largest entry of A.
        trim: whether slices that are zero at these inputs are left out, as those of packed weights are.
        constants: whether numbers that are none of the features may stand in the form.
    """
    n_out, n_left = axes_of
    letters = list(LETTERS[: T.ndim - 1])  # of the axes behind the samples
    full_shape = T.shape[1:]
    output, first, second = letters[:n_out], letters[n_out : n_out + n_left], letters[n_out + n_left :]
    ranges = active_ranges((T.abs() > EQUAL * size).any(0))
    shown = [_sliced(left, ranges[n_out : n_out + n_left], T.shape[1 + n_out :]),
             _sliced(right, ranges[n_out + n_left :], T.shape[1 + n_out + n_left :])]  # fmt: skip
    picks = []
    for axis, (a, b) in enumerate(ranges):
        full = T.shape[axis + 1]
        if trim and (a, b) != (0, full):
            values = torch.zeros(full, dtype=torch.float64)
            values[a:b] = 1.0
            picks.append((letters[axis], values))
            T = T.narrow(axis + 1, a, b - a)
    axes = list(letters)
    same = dict(zip(letters, letters, strict=True))
    pairs = [(a, b) for group in (first, output) for a in group for b in second] + [(a, b) for a in output for b in first]
    for a, b in pairs:
        a, b = same[a], same[b]
        if a in axes and b in axes and a != b and (merged := _diagonal(T, axes, a, b, size)) is not None:
            T = merged
            axes = [c for c in axes if c not in (a, b)] + [a]
            same = {key: a if value == b else value for key, value in same.items()}
    for letter in list(axes):
        axis = axes.index(letter) + 1
        if T.shape[axis] == 1 or float((T - T.narrow(axis, 0, 1)).abs().max()) <= EQUAL * size:
            T = T.select(axis, 0)
            axes.remove(letter)
    lengths = dict(zip(letters, full_shape, strict=True))
    found = _match(T, axes, known, size, {same[p] for p, _ in picks}, constants)
    if found is None:
        return None
    coefficients, scale, residual = found
    extra = [_constant(same[p], values) for p, values in picks]
    words = ["".join(same[a] for a in group) for group in (first, second)]
    out = [same[a] for a in output]
    if any(len(set(word)) < len(word) for word in (*words, out)):
        return None  # two axes of one block are equal, which no einsum of blocks says
    covered = set("".join((*words, *(c.word for c in (*coefficients, *extra)))))
    ones = [a for a in out if a not in covered]
    extra += [_ones(a, f"{lengths[a]}", lengths[a]) for a in ones]
    scale *= 1.0 if left == right else 2.0
    return Term(
        shown[0],
        shown[1],
        (left, right),
        (words[0], words[1]),
        "n" + "".join(out),
        (*coefficients, *extra),
        tidy(scale),
        residual,
    )


def _diagonal(T: Tensor, axes: list[str], a: str, b: str, size: float) -> Tensor | None:
    """The tensor on the diagonal of two axes, its axis last, where it is zero off it."""
    i, j = axes.index(a) + 1, axes.index(b) + 1
    if T.shape[i] != T.shape[j] or T.shape[i] == 1:
        return None
    square = T.movedim((i, j), (-2, -1))
    diagonal = square.diagonal(dim1=-2, dim2=-1)
    return diagonal if float((square - torch.diag_embed(diagonal)).abs().max()) <= EQUAL * size else None


def _match(
    T: Tensor, axes: list[str], known: list[Feature], size: float, picked: set[str], constants: bool
) -> tuple[tuple[Coefficient, ...], float, float] | None:
    """A tensor (n, *axes) as scale · feature."""
    if float((T - T[:1]).abs().max()) <= EQUAL * size:  # it does not depend on the inputs
        values = T[0]
        if not axes:
            return (_ones("n", "len(like)", len(T)),), float(values), 0.0
        if not constants or values.numel() > CONSTANTS or picked & set(axes):
            return None
        made = _constant("".join(axes), values, "constant")
        return (made, _ones("n", "len(like)", len(T))), 1.0, 0.0
    if picked & set(axes):
        return None
    for feature in known:
        if sorted(feature.value.shape[1:]) != sorted(T.shape[1:]):
            continue
        for order in permutations(range(len(axes))):
            value = feature.value.permute(0, *(i + 1 for i in order))
            if value.shape != T.shape:
                continue
            square = float((value * value).sum())
            scale = float((value * T).sum()) / square if square else 0.0
            residual = float((T - scale * value).abs().max()) / size
            if residual <= EQUAL:
                word = [""] * len(axes)
                for place, i in enumerate(order):
                    word[i] = axes[place]
                return (Coefficient("n" + "".join(word), feature.code, feature.value, feature.text),), scale, residual
    return None


def _constant(word: str, values: Tensor, text: str = "") -> Coefficient:
    """A tensor whose numbers stand in the code."""
    return Coefficient(word, f"torch.tensor({values.tolist()}, dtype=torch.float64, device=like.device)", values, text)


def _ones(letter: str, length: str, size: int) -> Coefficient:
    """Ones along one axis: the form does not depend on it."""
    code = f"torch.ones({length}, dtype=torch.float64, device=like.device)"
    return Coefficient(letter, code, torch.ones(size, dtype=torch.float64))


def _sliced(name: str, ranges: tuple[tuple[int, int], ...], shape: tuple[int, ...]) -> str:
    """The name of a block with the slice of it that is coupled."""
    index = [
        ":" if (a, b) == (0, full) else str(a) if b == a + 1 else f"{a}:{b}"
        for (a, b), full in zip(ranges, shape, strict=False)
    ]
    while index and index[-1] == ":":
        index.pop()
    return f"{name}[{', '.join(index)}]" if index else name


def tidy(value: float) -> float:
    """A measured factor as the fraction that it is, where it is one of small numbers.

    >>> tidy(0.33333333333333326), tidy(0.7071067811865)
    (0.3333333333333333, 0.7071067811865)
    """
    near = Fraction(value).limit_denominator(1000)
    return float(near) if abs(float(near) - value) <= 1e-12 * abs(value) else value


def number_text(value: float) -> str:
    """A factor as it is printed.

    >>> number_text(0.5), number_text(1.0), number_text(0.7071067811865)
    ('1/2', '1', '0.707107')
    """
    near = Fraction(value).limit_denominator(1000)
    return str(near) if abs(float(near) - value) <= 1e-9 * abs(value) else f"{value:.6g}"
