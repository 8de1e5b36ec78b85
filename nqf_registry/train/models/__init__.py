"""The models that the trainer trains: views of one subject that bring outputs and a gradient."""

from nqf_registry.train.models.base import (
    WAYS,
    Bound,
    Finish,
    Model,
    Objective,
    State,
    Step,
    Subject,
    WeightModel,
    initial_weights,
)
from nqf_registry.train.models.compressed import Compressed
from nqf_registry.train.models.nqf import NQF
from nqf_registry.train.models.order_parameters import OrderParameters
from nqf_registry.train.models.original import Original

MODELS: dict[str, type[Model]] = {model.name: model for model in (Original, NQF, OrderParameters, Compressed)}

__all__ = [
    "MODELS",
    "NQF",
    "WAYS",
    "Bound",
    "Compressed",
    "Finish",
    "Model",
    "Objective",
    "OrderParameters",
    "Original",
    "State",
    "Step",
    "Subject",
    "WeightModel",
    "initial_weights",
]
