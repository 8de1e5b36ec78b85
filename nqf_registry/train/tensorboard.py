"""A run's records as TensorBoard event files, for those who watch their runs there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from nqf_registry.errors import InvalidInput, StorageError

LARGEST = 64  # numbers of a record that become curves of their own; a whole M of a large layer is no set of curves


def export(run: Any, folder: str | os.PathLike[str]) -> Path:
    """Writes every recorded scalar of every model and replica as a curve, one event file a model and replica.

    Args:
        run: a run.
        folder: where to; one folder ``model/replica-r`` inside it for each.

    Returns:
        The folder.

    Raises:
        InvalidInput: tensorboardX is not installed.
        StorageError: the folder cannot be written.
    """
    try:
        from tensorboardX import SummaryWriter  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise InvalidInput(
            "TensorBoard files need tensorboardX, which is not installed; pip install 'nqf_registry[tensorboard]'."
        ) from error
    folder = Path(folder)
    data, steps = run.data, run.data["step"].values
    for m, model in enumerate(run.models):
        for r in range(data.sizes.get("replica", 0)):
            try:
                with SummaryWriter(str(folder / model / f"replica-{r}")) as writer:
                    for name in data.data_vars:
                        for tag, values in _curves(str(name), data[name].values[m, r]):
                            for step, value in zip(steps, values, strict=True):
                                if np.isfinite(value):
                                    writer.add_scalar(tag, float(value), int(step))
            except OSError as error:
                raise StorageError(f"{folder} cannot be written: {error.strerror or error}.") from error
    return folder


def _curves(name: str, values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """One curve a number: values (records,) themselves, or (records, …) with the index in the tag; none where they are many."""
    if values.ndim == 1:
        return [(name, values)]
    if values[0].size > LARGEST:
        return []
    return [(f"{name}/{'-'.join(map(str, index))}", values[(slice(None), *index)]) for index in np.ndindex(*values.shape[1:])]
