"""Whether a declared neuron is a stack of smaller units that are interchangeable across all neurons.

A neuron splits if it can be cut into equal parts such that exchanging any two parts, of the same or of different neurons,
leaves f alone: then f has the symmetry of m·d units. A symmetry inside one neuron only, like a ↔ b in (a·x)(b·x), does not
count.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from nqf_registry.errors import InvalidInput
from nqf_registry.verify.residuals.given import given_weights
from nqf_registry.verify.residuals.permutation_symmetry import changes
from nqf_registry.verify.setting import Nothing, Setting
from nqf_registry.verify.splits import Split, counts, primes, splits
from nqf_registry.verify.tolerances import EQUAL

MOST = 1024  # cuts that are tried
NUMBERS = 2**25  # numbers in the weights that this takes, all cuts together
PIECE = 2**21  # of these at a time
DEPENDS = 1e-6  # a part that f moves less by says nothing when it is exchanged
ENTRIES = 128  # parameters of a neuron up to which its second derivatives are looked at


@dataclass(frozen=True)
class Minimality:
    """What exchanging parts of neurons does to f.

    Attributes:
        change: the smallest over the cuts of the largest relative change over the exchanges of one cut, ``nested`` left out;
            inf where f depends on too little to judge any.
        split: that cut. Where f does not change at all it is the finest that holds.
        tried: how many cuts were tried.
        more: whether there were more.
        nested: a cut of some blocks only whose parts are interchangeable across neurons; the other blocks matter too, so the
            neuron holds units of several kinds.
        inside: a cut whose parts may be exchanged inside one neuron, but not across: no smaller unit.
    """

    change: float
    split: Split | None
    tried: int
    more: bool
    nested: Split | None = field(default=None)
    inside: Split | None = field(default=None)


def can_be_cut(blocks: dict[str, tuple[int, ...]]) -> bool:
    """Whether there is any cut to try."""
    return next(_candidates(blocks), None) is not None


def _candidates(blocks: dict[str, tuple[int, ...]]) -> Iterator[Split]:
    """Whole cuts first, then those that leave blocks out."""
    for whole in (True, False):
        for parts in primes(blocks):
            yield from splits(blocks, parts, whole)


@functools.lru_cache(maxsize=64)
def _listed(blocks: tuple[tuple[str, tuple[int, ...]], ...], most: int) -> tuple[Split, ...]:
    return tuple(islice(_candidates(dict(blocks)), most))


def minimality(setting: Setting, W: Tensor, fresh: Tensor) -> Minimality:
    """The smallest relative change of f under the exchanges of any cut: near zero where the neuron is a stack of units.

    Args:
        setting: the layer and its inputs, of width two or more.
        W: weights (p, d).
        fresh: other weights (p, d), to see that f depends on what is exchanged.

    Raises:
        InvalidInput: no setting, weights that do not fit it, ``fresh`` the same as W, or a width of one, where there is no
            other neuron to exchange parts with.
        Undecided: the numbers of W are all equal, so that no exchange moves anything; or f is no function, has no length scale,
            or computes in a coarser arithmetic than float64's.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", n_in=2, n_out=2, width=2)
        >>> setting = Setting(layer, layer.sample(3, torch.Generator().manual_seed(0)))
        >>> W, fresh = torch.randn(2, setting.p, setting.d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        >>> minimality(setting, W, fresh).change > 0.01
        True
    """
    W, fresh = given_weights(setting, W), given_weights(setting, fresh, "fresh")
    key = setting.layer.key
    if setting.d < 2:
        raise InvalidInput(f"{key}: minimality needs a width of two or more, got {setting.d}; layer.resized(2) has it.")
    if torch.equal(W, fresh):
        raise InvalidInput(f"{key}: fresh must be other weights than W, got the same; draw them anew.")
    if bool((W[0, 0] == W).all()):
        raise Nothing(
            f"{key}: the numbers of W are all equal, so exchanging parts moves nothing. Take W with different numbers."
        )
    setting.check_exact()
    blocks = setting.layer.blocks()
    most = max(8, min(MOST, NUMBERS // W.numel()))
    listed = _listed(tuple(blocks.items()), most + 1)
    more = len(listed) > most
    found = [*listed[:most], *_entangled(setting, W)]
    across = _exchanged(setting, W, found, 1)
    best: tuple[float, Split | None] = (float("inf"), None)
    nested = None
    for i in across.nan_to_num(torch.inf).sort(stable=True)[1].tolist():
        if float(across[i]) > max(best[0], EQUAL):  # one exchange bounds the others from below, so few are judged in full
            break
        change = _judged(setting, W, fresh, found[i])
        if change is None:
            continue
        if change <= EQUAL and found[i].rest and _rest_matters(setting, W, fresh, found[i]):
            nested = nested or found[i]
        elif change <= EQUAL:
            return Minimality(change, _finest(setting, W, fresh, found[i]), len(found), more)
        elif change < best[0]:
            best = (change, found[i])
    return Minimality(*best, len(found), more, nested, _inside(setting, W, fresh, found, across))


def _exchanged(setting: Setting, W: Tensor, found: list[Split], other: int) -> Tensor:
    """Relative change of f for each cut, where part 0 of neuron 0 and part 1 of another neuron change places."""
    gaps, piece = [], max(1, PIECE // W.numel())
    for start in range(0, len(found), piece):
        some = found[start : start + piece]
        gaps.append(changes(setting, W, torch.stack([_swapped(W, s.members[0], 0, s.members[1], other) for s in some])))
    return torch.cat(gaps) if gaps else torch.zeros(0, dtype=W.dtype)


def _swapped(W: Tensor, a: Tensor, i: int, b: Tensor, j: int) -> Tensor:
    moved = W.clone()
    moved[a, i], moved[b, j] = W[b, j], W[a, i]
    return moved


def _judged(setting: Setting, W: Tensor, fresh: Tensor, split: Split) -> float | None:
    """The largest change over the exchanges that generate all others; None where f does not depend on a part."""
    moved = []
    for part in split.members:
        touched = W.clone()
        touched[part, 0] = fresh[part, 0]
        moved.append(touched)
    first = split.members[0]
    exchanged = [_swapped(W, first, 0, first, 1), _swapped(W, first, 0, split.members[1], 1)]
    exchanged += [_swapped(W, a, 0, b, 0) for a, b in zip(split.members, split.members[1:], strict=False)]
    gaps = changes(setting, W, torch.stack(moved + exchanged))
    if float(gaps[: split.parts].min()) < DEPENDS:
        return None
    return float(gaps[split.parts :].max())


def _finest(setting: Setting, W: Tensor, fresh: Tensor, split: Split) -> Split:
    """The cut into the most parts that holds, of multiples of the one found."""
    blocks = setting.layer.blocks()
    if split.rest:
        return split
    for parts in counts(blocks, split.parts):
        found = list(islice(splits(blocks, parts), max(8, min(MOST // 8, NUMBERS // W.numel()))))
        across = _exchanged(setting, W, found, 1)
        for i, finer in enumerate(found):
            if float(across[i]) <= EQUAL and (worst := _judged(setting, W, fresh, finer)) is not None and worst <= EQUAL:
                return finer
    return split


def _rest_matters(setting: Setting, W: Tensor, fresh: Tensor, split: Split) -> bool:
    rest = torch.ones(setting.p, dtype=torch.bool)
    rest[split.members.reshape(-1)] = False
    touched = W.clone()
    touched[rest] = fresh[rest]
    return float(changes(setting, W, touched[None]).max()) >= EQUAL


def _inside(setting: Setting, W: Tensor, fresh: Tensor, found: list[Split], across: Tensor) -> Split | None:
    """The first cut whose parts may be exchanged inside a neuron only."""
    within = _exchanged(setting, W, found, 0)
    for i, split in enumerate(found):
        if float(within[i]) <= EQUAL < float(across[i]):
            touched = W.clone()
            touched[split.members[0], 0] = fresh[split.members[0], 0]
            if float(changes(setting, W, touched[None]).max()) >= DEPENDS:
                return split
    return None


def _entangled(setting: Setting, W: Tensor) -> Iterator[Split]:
    """The cut that second derivatives suggest: parameters of one neuron that are coupled with each other and with no others.

    It finds units however they lie in their blocks, as long as each keeps the order of its parameters.
    """
    p = setting.p
    if p > ENTRIES:
        return
    f = setting.neuron_function(W, 0)
    generator = torch.Generator().manual_seed(setting.seed)
    cotangent = torch.randn(setting.offset.shape, generator=generator, dtype=torch.float64)
    try:
        with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
            hessian = torch.func.hessian(lambda w: (cotangent * f(w)).sum())(W[:, 0]).detach()
    except Exception:  # a layer may refuse either mode; the cuts of its blocks remain
        return
    size = hessian.abs()
    linked = (size > EQUAL * size.max()).to(torch.float64) + torch.eye(p, dtype=torch.float64)
    for _ in range(p.bit_length()):  # squares of the graph: after these every path is one step
        linked = (linked @ linked > 0).to(torch.float64)
    groups = {tuple(row.nonzero().flatten().tolist()) for row in linked}
    parts = sorted(groups)
    if len(parts) > 1 and len({len(part) for part in parts}) == 1 and len(parts[0]) > 0:
        said = "the parameters " + " | ".join(", ".join(map(str, part)) for part in parts)
        yield Split(len(parts), (said,), torch.tensor(parts), {"w": (len(parts[0]),)})
