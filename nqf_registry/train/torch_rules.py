"""Every optimiser of ``torch.optim``, and every subclass of ``torch.optim.Optimizer``, as a rule of the trainer.

The optimiser works on views of the trained blocks (R, *shape, d). A rule that is known to treat every number by itself takes
all replicas at once; any other gets one optimiser a replica, as it does where rates or weight decays differ by replica.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from nqf_registry.errors import InvalidInput
from nqf_registry.spelling import did_you_mean
from nqf_registry.train.gradients import Gradient, formed
from nqf_registry.train.optimizers import Differentiable, Optimizer, Slots
from nqf_registry.train.torch_state import GROUP, changed, decode, encode

# What one number does under these depends on its own gradients alone, so that stacked replicas do not see each other.
ELEMENTWISE = ("ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD")
MATRICES = ("Muon",)  # takes nothing but matrices: a block (*shape, d) becomes one of as many rows as a neuron has numbers


class TorchRule(Optimizer):
    """An optimiser of torch; :func:`torch_rule` makes one class for each of its classes."""

    linear = False
    nonlinear = "whether an optimiser of torch is linear in weights and gradient is not known here"
    torch_class: ClassVar[type[torch.optim.Optimizer]]
    takes_decay: ClassVar[bool]
    closure: ClassVar[bool]  # whether a step asks for loss and gradient itself, several times

    @classmethod
    def check_options(
        cls, options: Mapping[str, Any], dtype: torch.dtype, lr: float | None, weight_decay: float, momentum: float
    ) -> dict[str, Any]:
        """The options, after some steps on a few numbers that were saved and taken up again in between.

        Raises:
            InvalidInput: the optimiser has no such option, refuses a value, or cannot be taken up again bit for bit.
        """
        known = [
            name for name in _parameters(cls.torch_class) if name not in ("self", "params", "lr", "weight_decay", "momentum")
        ]
        open_ended = any(p.kind is p.VAR_KEYWORD for p in _parameters(cls.torch_class).values())
        for name in options:
            if name == "lr":
                raise InvalidInput("the rate is given by lr=, not by optimizer_options.")
            if name not in known and not open_ended:
                raise InvalidInput(
                    f"{cls.name} has no option {name!r}.{did_you_mean(str(name), known)} It has {', '.join(known)}; lr, "
                    "weight_decay and momentum are settings of the run."
                )
        found = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
        _try(cls((lr or cls.rate_default or 1e-3,), (weight_decay,), momentum, found), dtype)
        return found

    @property
    def stacked(self) -> bool:
        """Whether one optimiser takes all replicas."""
        known = self.torch_class.__module__.startswith("torch.optim.") and self.torch_class.__name__ in ELEMENTWISE
        return known and len(self.lr) == len(self.weight_decay) == 1

    def make(self, parameters: list[Tensor], replica: int) -> torch.optim.Optimizer:
        """The optimiser of one replica, or of all."""
        constants = dict(self.options, lr=self._of(self.lr, replica))
        if self.takes_decay:
            constants["weight_decay"] = self._of(self.weight_decay, replica)
        if self.takes_momentum:
            constants["momentum"] = self.momentum
        return self.torch_class(parameters, **constants)

    def slots(self, W: Mapping[str, Tensor]) -> Slots:
        """Nothing before the first step, in which torch lays out what the rule remembers."""
        return {}

    def step(self, W: Mapping[str, Tensor], gradient: Gradient, slots: Slots, count: int) -> None:
        """One step of the optimiser.

        Raises:
            InvalidInput: it asks for the loss itself, and takes no gradient.
        """
        if self.closure:
            raise InvalidInput(f"{self.name} asks for the loss itself; take it by stepper.")
        live = _live(self, W, slots)
        live.step(gradient, count)
        live.keep(slots)

    def stepper(self, objective: Differentiable, state: dict[str, Tensor], slots: Slots) -> tuple[Callable[[int], None], Any]:
        """Steps of the optimiser; what it remembers is put into the slots after the last."""
        live = _live(self, state, slots)
        if self.closure:
            return lambda count: live.search(objective, count), lambda: live.keep(slots)
        return lambda count: live.step(objective.gradient(state), count), lambda: live.keep(slots)

    def stability_limit(self) -> None:
        """None: nothing is known of the rule."""
        return None

    def _of(self, values: tuple[float, ...], replica: int) -> float:
        return values[replica if len(values) > 1 else 0]


class _Live:
    """The optimisers of a rule on trained blocks, made anew from their slots wherever a run is taken up."""

    def __init__(self, rule: TorchRule, W: Mapping[str, Tensor], slots: Slots) -> None:
        # detached, or the entry of the first block in the dictionary of live optimisers would keep that block alive
        self.rule, self.W = rule, {name: block.detach() for name, block in W.items()}
        device = next(iter(W.values())).device
        self.device, self.held = device, slots
        count = 1 if rule.stacked else len(next(iter(W.values())))
        self.parameters = [{name: self._view(block, r).detach() for name, block in self.W.items()} for r in range(count)]
        self.optimizers, self.first = [], []
        for r, parameters in enumerate(self.parameters):
            optimizer = rule.make(list(parameters.values()), r)
            self.optimizers.append(optimizer)
            self.first.append([dict(group) for group in optimizer.param_groups])
        for r, (optimizer, parameters) in enumerate(zip(self.optimizers, self.parameters, strict=True)):
            self._restore(optimizer, parameters, self._tag(r), slots)

    def _tag(self, replica: int) -> str:
        return "" if self.rule.stacked else f"@{replica}"

    def _view(self, block: Tensor, replica: int) -> Tensor:
        """What the optimiser sees of a block, or of its gradient."""
        if self.rule.stacked:
            return block
        part = block[replica]
        return part.reshape(-1, part.shape[-1]) if self.rule.torch_class.__name__ in MATRICES else part

    def step(self, gradient: Gradient, count: int) -> None:
        """One step, all replicas."""
        for name, block in self.W.items():
            part = gradient.get(name)
            g = torch.zeros_like(block) if part is None else formed(part)
            if not self.rule.takes_decay:
                g = self.rule.decayed(g, block)
            for r, parameters in enumerate(self.parameters):
                parameters[name].grad = self._view(g, r)
        self._rates(count)
        for optimizer in self.optimizers:
            optimizer.step()

    def search(self, objective: Differentiable, count: int) -> None:
        """One step of optimisers that evaluate the loss themselves, each on its own replica."""
        self._rates(count)
        for r, (optimizer, parameters) in enumerate(zip(self.optimizers, self.parameters, strict=True)):
            own = {name: block[r : r + 1] for name, block in self.W.items()}
            decay = self.rule._of(self.rule.weight_decay, r)

            def closure(own: Any = own, parameters: Any = parameters, decay: float = decay) -> Tensor:
                with torch.no_grad():
                    gradient, value = objective.gradient(own), objective.value(own)[0]
                    for name, block in own.items():
                        part = gradient.get(name)
                        g = torch.zeros_like(block) if part is None else formed(part)
                        g = g if self.rule.takes_decay or not decay else torch.add(g, block, alpha=decay)
                        parameters[name].grad = g.view(parameters[name].shape)
                        if decay and not self.rule.takes_decay:
                            value = value + decay / 2 * block.square().sum()
                return value

            optimizer.step(closure)

    def _rates(self, count: int) -> None:
        if self.rule.schedule is not None:
            factor = self.rule.schedule(count - 1)
            for r, optimizer in enumerate(self.optimizers):
                for group in optimizer.param_groups:
                    group["lr"] = factor * self.rule._of(self.rule.lr, r)

    def keep(self, slots: Slots) -> None:
        """Puts what the optimisers remember into the slots."""
        slots.clear()
        for r, (optimizer, parameters) in enumerate(zip(self.optimizers, self.parameters, strict=True)):
            tag, names = self._tag(r), {id(p): name for name, p in parameters.items()}
            for p, state in optimizer.state.items():
                for key, value in state.items():
                    for slot, tensor in encode(f"{key}{tag}", value, self.device).items():
                        slots.setdefault(slot, {})[names[id(p)]] = tensor
            block = next(iter(parameters))
            for g, (group, first) in enumerate(zip(optimizer.param_groups, self.first[r], strict=True)):
                for key, value in changed(group, first).items():
                    if key != "lr" or self.rule.schedule is None:
                        for slot, tensor in encode(f"{GROUP}{g}:{key}{tag}", value, self.device).items():
                            slots.setdefault(slot, {})[block] = tensor

    def _restore(self, optimizer: torch.optim.Optimizer, parameters: Mapping[str, Tensor], tag: str, slots: Slots) -> None:
        for name, p in parameters.items():
            own = {slot: held[name] for slot, held in slots.items() if name in held and _tag_of(slot) == tag}
            for key, value in decode(own).items():
                key = key.partition("@")[0]
                if key.startswith(GROUP):
                    g, _, key = key.removeprefix(GROUP).partition(":")
                    optimizer.param_groups[int(g)][key] = value
                else:
                    optimizer.state[p][key] = value


def _tag_of(slot: str) -> str:
    """``@3`` of ``exp_avg@3``, ``old_dirs@3/0`` and ``step@3#int``."""
    _, at, rest = slot.partition("@")
    return at + rest.partition("#")[0].partition("/")[0]


_LIVE: Any = WeakIdKeyDictionary()  # the optimisers that step now, by the first block that they train


def _live(rule: TorchRule, W: Mapping[str, Tensor], slots: Slots) -> _Live:
    """The optimisers at these blocks and slots: those of the step before, or new ones."""
    first = next(iter(W.values()))
    found = _LIVE.get(first)
    if found is None or found.rule is not rule or found.held is not slots:
        found = _LIVE[first] = _Live(rule, W, slots)
    return found


@functools.cache
def torch_rule(cls: type[torch.optim.Optimizer]) -> type[TorchRule]:
    """The rule of a class of optimisers.

    Raises:
        InvalidInput: the class takes no rate.
    """
    parameters = _parameters(cls)
    if "lr" not in parameters:
        raise InvalidInput(f"{cls.__module__}.{cls.__qualname__} takes no lr; an optimiser must, to be trained with here.")
    module = "torch.optim" if cls.__module__.startswith("torch.optim.") else cls.__module__
    decay, momentum, lr = (parameters.get(name) for name in ("weight_decay", "momentum", "lr"))
    closure = inspect.signature(cls.step).parameters.get("closure")
    what: dict[str, Any] = {
        "__doc__": f"The optimiser {cls.__qualname__}.",
        "name": f"{module}.{cls.__qualname__}",
        "torch_class": cls,
        "takes_decay": decay is not None,
        "takes_momentum": momentum is not None,
        "closure": closure is not None and closure.default is closure.empty,
        "weight_decay_default": _number(decay, 0.0),
        "momentum_default": _number(momentum, 0.0),
        "rate_default": _number(lr, None),
    }
    return type(cls.__name__, (TorchRule,), what)


def _parameters(cls: type) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(cls).parameters


def _number(parameter: inspect.Parameter | None, otherwise: Any) -> Any:
    """What a parameter is if left out, where that is a number."""
    value = otherwise if parameter is None else parameter.default
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise


class _Bowls:
    """L = Σ (1 − cos W) + Σ W⁴ / 4, a loss to try an optimiser on."""

    def value(self, W: Mapping[str, Tensor]) -> Tensor:
        parts = [(1 - torch.cos(block) + block**4 / 4).flatten(1).sum(1) for block in W.values()]
        return torch.stack(parts).sum(0)

    def gradient(self, W: Mapping[str, Tensor]) -> Gradient:
        return {name: torch.sin(block) + block**3 for name, block in W.items()}


def _try(rule: TorchRule, dtype: torch.dtype) -> None:
    """Four steps on two replicas, and the same with everything but the slots thrown away after two.

    Raises:
        InvalidInput: a step breaks, draws random numbers, or is another one after that.
    """
    generator = torch.Generator().manual_seed(0)
    shapes = {"u": (3, 4), "v": (2, 4)}
    start = {name: torch.randn(2, *shape, generator=generator, dtype=torch.float64).to(dtype) for name, shape in shapes.items()}

    def steps(W: dict[str, Tensor], slots: Slots, counts: range) -> None:
        take, finish = rule.stepper(_Bowls(), W, slots)
        for count in counts:
            take(count)
        finish()

    said = rule.name + (
        f" with {', '.join(f'{name}={value!r}' for name, value in rule.options.items())}" if rule.options else ""
    )
    noise = torch.get_rng_state()
    try:
        with torch.no_grad():
            straight, slots = {name: block.clone() for name, block in start.items()}, rule.slots(start)
            steps(straight, slots, range(1, 5))
            broken, slots = {name: block.clone() for name, block in start.items()}, rule.slots(start)
            steps(broken, slots, range(1, 3))
            broken = {name: block.clone() for name, block in broken.items()}
            slots = {slot: {name: t.clone() for name, t in held.items()} for slot, held in slots.items()}
            steps(broken, slots, range(3, 5))
    except Exception as error:
        raise InvalidInput(
            f"{said} cannot be stepped: {type(error).__name__}: {error}. Change its options, or take another rule."
        ) from error
    random = not torch.equal(noise, torch.get_rng_state())
    torch.set_rng_state(noise)
    if random:
        raise InvalidInput(
            f"{said} draws from torch's global random numbers, so that no run of it could be repeated or taken up "
            "again. Take a rule that is determined by its gradients."
        )
    if not all(torch.equal(straight[name], broken[name]) for name in start):
        raise InvalidInput(
            f"{said} remembers something outside its state and its parameter groups, so that no run of it could be "
            "taken up again. Let it keep that in self.state[parameter]."
        )
