"""Which samples a step sees: all of them, or the next minibatch of a shuffled pass."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class Batches:
    """Minibatches as a function of the step alone, so that a run taken up anywhere sees what it would have seen.

    Every pass shuffles the samples anew; the rest of a pass that does not fill a minibatch is left out of that pass.

    Args:
        n: the number of samples.
        size: samples a minibatch, at most n.
        seed: of the order; it has nothing to do with the seeds of the weights, and every replica and model sees the same order.
        device: where the indices are wanted.
    """

    def __init__(self, n: int, size: int, seed: int, device: torch.device) -> None:
        self.n, self.size, self.seed, self.device = n, size, seed, device
        self.per_pass = n // size
        self._pass, self._order = -1, torch.empty(0, dtype=torch.long)

    def at(self, step: int) -> Tensor:
        """The samples of one step, (size,) indices."""
        turn, place = divmod(step, self.per_pass)
        if turn != self._pass:
            word = int(np.random.SeedSequence([self.seed, turn]).generate_state(1, np.uint64)[0] >> np.uint64(1))
            self._order = torch.randperm(self.n, generator=torch.Generator().manual_seed(word)).to(self.device)
            self._pass = turn
        return self._order[place * self.size : (place + 1) * self.size]
