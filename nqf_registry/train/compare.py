"""``compare``: several models of one layer in lockstep, given by name, by class or made."""

from __future__ import annotations

import inspect
from typing import Any

from nqf_registry.errors import InvalidInput
from nqf_registry.spelling import did_you_mean
from nqf_registry.train.data import Data
from nqf_registry.train.loop import train
from nqf_registry.train.models import MODELS, NQF, Model, Original, Subject
from nqf_registry.train.runs import Run


def compare(layer: Any, data: Data, models: Any = (Original, NQF), **settings: Any) -> Run:
    """Trains several models of one layer or composition in lockstep, from the same initial weights and on the same minibatches.

    Args:
        layer: a layer or a composition.
        data: what to learn.
        models: one or several, each a name (``original``, ``nqf``, ``order-parameters``, ``compressed``), a model
            class, or a model of this layer.
        settings: every setting of :func:`nqf_registry.train`.

    Returns:
        The run; its records hold the distance of every model from the first one.

    Raises:
        InvalidInput: as :func:`nqf_registry.train`.
        Diverged: as :func:`nqf_registry.train`.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", n_in=4, width=8)
        >>> run = nqf.compare(layer, nqf.teacher(layer, n=64), steps=100, verify=False)
        >>> run.data["train_loss"].dims
        ('model', 'replica', 'record')
    """
    if isinstance(layer, type) or not isinstance(layer, Subject):  # a class has the methods of a subject too
        raise InvalidInput(f"nqf.compare takes a layer or a composition, got {_said(layer)}; take one by registry.get(key).")
    known = [name for name in inspect.signature(train).parameters if name not in ("model", "data")]
    for name in settings:
        if name not in known:
            raise InvalidInput(f"nqf.compare has no setting {name!r}.{did_you_mean(name, known)} It has {', '.join(known)}.")
    return train(_models(layer, models, data), data, **settings)


def _said(subject: Any) -> str:
    """What was given in place of a subject."""
    if isinstance(subject, type):
        return f"the class {subject.__name__} (make an instance, {subject.__name__}())"
    if hasattr(subject, "output"):
        return f"{type(subject).__name__} (finish it with .output(name))"
    return type(subject).__name__


def _models(layer: Any, models: Any, data: Any) -> list[Model]:
    """Models of a layer, from what :func:`compare` takes for them."""
    found: list[Model] = []
    for model in list(models) if isinstance(models, list | tuple) else [models]:
        if isinstance(model, str):
            if model not in MODELS:
                raise InvalidInput(f"there is no model {model!r}.{did_you_mean(model, MODELS)} Known are {', '.join(MODELS)}.")
            model = MODELS[model]
        made = model if isinstance(model, Model) else _made(model, layer, data)
        if not isinstance(made, Model) or made.subject != layer:
            what = repr(model) if made is None else f"one of {getattr(getattr(made, 'subject', None), 'key', 'something else')}"
            raise InvalidInput(f"models must be names, classes or models of {layer.key}, such as nqf.NQF; got {what}.")
        found.append(made)
    if not found:
        raise InvalidInput(f"nqf.compare takes a model or several ({', '.join(MODELS)}), got none.")
    return found


def _made(model: Any, layer: Any, data: Any) -> Any:
    """A model class made for a layer, or what a function of a layer gives."""
    if isinstance(model, type) and issubclass(model, Model):
        return model.of(layer, data)
    return model(layer) if callable(model) else None
