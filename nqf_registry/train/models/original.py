"""The subject as it is written."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nqf_registry.arguments import check_gradient
from nqf_registry.layer import Inputs, Weights, cast, declares
from nqf_registry.train.models.base import Autograd, Bound, ClosedForm, State, WeightModel


class Original(WeightModel):
    """The subject as written, differentiated by its own ``pullback`` where it declares one, else by autograd."""

    name = "original"

    def bind(self, x: Inputs) -> Bound:
        """The subject at inputs x."""
        subject: Any = self.subject
        x = cast(x, None)
        # a subject that can be bound to its inputs computes once what depends on them alone
        f = subject.bind(x).evaluate if hasattr(subject, "bind") else lambda W: subject(W, x)

        def outputs(W: Weights) -> Tensor:
            if _replicas(W) == 1:  # without the replica axis nothing has to be vmapped
                return f({name: block[0] for name, block in W.items()})[None]
            return f(W)

        if not declares(subject, "pullback"):
            return Autograd(outputs)

        def one(W: Weights, cotangent: Tensor) -> State:
            return check_gradient(subject.key, subject.pullback(W, x, cotangent), W)

        def gradient(W: Weights, cotangent: Tensor) -> State:
            if getattr(subject, "batched", False):
                return one(W, cotangent)
            if _replicas(W) > 1:
                try:
                    return torch.func.vmap(one)(W, cotangent)
                except Exception:  # vmap's refusals have no class of their own; a real error comes again below
                    pass
            parts = [one({name: block[r] for name, block in W.items()}, cotangent[r]) for r in range(_replicas(W))]
            return {name: torch.stack([part[name] for part in parts]) for name in W}

        return ClosedForm(lambda W: Autograd(outputs).evaluate(W), gradient)


def _replicas(W: Weights) -> int:
    return next(iter(W.values())).shape[0]
