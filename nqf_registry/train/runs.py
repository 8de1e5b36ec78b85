"""A run: its manifest, its records as an xarray data set, its weights. Opening one executes nothing and needs no plugin."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from nqf_registry.errors import InvalidInput
from nqf_registry.spelling import did_you_mean
from nqf_registry.train import directory as directories
from nqf_registry.train import manifest as manifests

if TYPE_CHECKING:
    import xarray

    from nqf_registry.train.staircase import Event


class Run:
    """What a training run left behind.

    Attributes:
        manifest: what it was and what became of it, see :mod:`nqf_registry.train.manifest`.
        records: what was measured, in the order of the steps.
        directory: its folder, None for a run that was kept in memory.
        seconds: how long it took, None for a run that was opened.
    """

    def __init__(
        self,
        manifest: Mapping[str, Any],
        records: Sequence[Mapping[str, Any]],
        weights: Mapping[str, Mapping[str, Tensor]] | None = None,
        directory: Path | None = None,
        seconds: float | None = None,
    ) -> None:
        self.manifest, self.records, self.directory, self.seconds = dict(manifest), list(records), directory, seconds
        self._weights = weights

    def __repr__(self) -> str:
        data, where = self.manifest["data"]["name"], f", in {self.directory}" if self.directory else ""
        return f"<Run of {self.manifest['subject']['key']} on {data}, {self.status}, {len(self.records)} records{where}>"

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Run:
        """A run from its folder.

        Raises:
            InvalidInput: the folder holds no run.
            StorageError: it cannot be read, or something in it is damaged.
        """
        path = Path(path)
        manifest = directories.read_manifest(path)
        return cls(manifest, directories.read_records(path, manifest), None, path)

    @property
    def status(self) -> str:
        """``running``, ``finished``, ``diverged``, ``interrupted``, ``failed``, or ``killed`` where its process just ended."""
        return self.manifest["status"]

    @property
    def models(self) -> list[str]:
        """The names of the models."""
        return self.manifest["models"]

    @property
    def weights(self) -> dict[str, dict[str, Tensor]]:
        """The last finite weights: model to block to (R, *shape, d)."""
        if self._weights is None:
            self._weights = {} if self.directory is None else directories.read_weights(self.directory)
        return {model: dict(W) for model, W in self._weights.items()}

    @cached_property
    def data(self) -> xarray.Dataset:
        """Everything recorded, with axes ``model``, ``replica`` and ``record``.

        Coordinates: ``step`` and, by replica, ``time`` = Σ of the rates so far along ``record``; ``seed``, ``scale``, ``lr``
            and ``weight_decay`` along ``replica``. What a probe gives beyond one number has its own axes.
        """
        import xarray

        settings = self.manifest["settings"]
        replicas = len(settings["seeds"])
        steps = np.array([record["step"] for record in self.records], dtype=np.int64)
        lr = np.broadcast_to(np.array(settings["lr"], dtype=np.float64), replicas)
        along = {"seed": settings["seeds"], "scale": settings["scales"], "lr": lr, "weight_decay": settings["weight_decay"]}
        coordinates: dict[str, Any] = {
            "model": self.models,
            "step": ("record", steps),
            "time": (("replica", "record"), lr[:, None] * self._elapsed(steps)),
            **{name: ("replica", np.broadcast_to(np.asarray(values), replicas)) for name, values in along.items()},
        }
        variables = {}
        for name in self.records[0] if self.records else ():
            if name != "step":
                values = np.stack([record[name] for record in self.records])  # (record, model, replica, …)
                extra = [f"{name}-{i}" for i in range(values.ndim - 3)]
                variables[name] = (("model", "replica", "record", *extra), np.moveaxis(values, 0, 2))
        return xarray.Dataset(variables, coordinates, attrs={"subject": self.manifest["subject"]["key"], "status": self.status})

    def _elapsed(self, steps: np.ndarray) -> np.ndarray:
        """Σ of the schedule's factors before each step, or the time of the flow there; the step itself at a constant rate."""
        if "elapsed" not in self.manifest:
            return steps
        at = self.manifest.get("elapsed_at", self.manifest["records"])
        return np.interp(steps, at, self.manifest["elapsed"])

    def curves(self, variable: str = "train_loss", model: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Steps (records,), and one recorded variable: (models, R, records, …), or (R, records, …) of one model.

        Raises:
            InvalidInput: nothing of that name was recorded, or no such model was trained.
        """
        if variable not in self.data:
            known = sorted(map(str, self.data.data_vars))
            raise InvalidInput(f"{variable!r} was not recorded.{did_you_mean(variable, known)} There are {', '.join(known)}.")
        if model is not None and model not in self.models:
            raise InvalidInput(f"no model {model!r} was trained; there are {', '.join(self.models)}.")
        found = self.data[variable]
        return self.data["step"].values, (found if model is None else found.sel(model=model)).values

    def events(self, fraction: float | None = None) -> list[Event]:
        """What happened to the training losses: where plateaus ended, and where modes switched on.

        Args:
            fraction: what counts as a move of a loss; that of the run (``events=``) if left out, or 0.05.

        See :func:`nqf_registry.train.staircase.find_events` for the rule.

        Raises:
            InvalidInput: the fraction is none.

        Example:
            >>> import nqf_registry as nqf
            >>> layer = nqf.default_registry().get("phase-retrieval", size=4)
            >>> run = nqf.train(nqf.NQF(layer), nqf.teacher(layer, n=32), scale=1e-4, events=0.05, verify=False)
            >>> [event.name for event in run.events()][:2]
            ["plateau's end", 'switch-on']
        """
        from nqf_registry.train.staircase import find_events

        return find_events(self, fraction)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Draws the loss curves to a file (SVG, PNG or PDF by its ending); by default ``loss.png`` in the run's folder.

        Raises:
            InvalidInput: there is no folder and no path, or nothing to draw.
        """
        from nqf_registry.train.curves import plot_losses

        if path is None:
            if self.directory is None:
                raise InvalidInput("this run was kept in memory: give plot a path.")
            path = self.directory / "loss.png"
        return plot_losses(self, Path(path))

    def summary(self) -> list[str]:
        """A few lines about what was measured."""
        settings, lines = self.manifest["settings"], []
        lr = settings["lr"]
        where = f", {settings['replicas']} replicas" if settings.get("replicas", 1) > 1 else ""
        rates = f"{lr[0]:.4g}" if len(set(lr)) == 1 else f"{min(lr):.4g} to {max(lr):.4g}"
        if settings.get("times"):
            lines.append(f"gradient flow to time {settings['times'][-1]:.6g}{where}, status {self.status}")
        else:
            shape = f" × {settings['schedule']['name']}" if settings.get("schedule") else ""
            rule = self.manifest["rate"]["rule"]
            lines.append(f"{settings['optimizer']}, rate {rates}{shape} ({rule}){where}, status {self.status}")
        if not self.records:
            return [*lines, "nothing was recorded"]
        first, last = self.records[0], self.records[-1]
        width = max(map(len, self.models))
        for m, model in enumerate(self.models):
            text = f"{model:<{width}}  train loss {_span(first, last, 'train_loss', m)}"
            if "test_loss" in last:
                text += f", test loss {_span(first, last, 'test_loss', m)}"
            if "test_accuracy" in last:
                text += f", test accuracy {np.mean(last['test_accuracy'][m]):.4f}"
            elif "train_accuracy" in last:
                text += f", train accuracy {np.mean(last['train_accuracy'][m]):.4f}"
            lines.append(text)
        if "stalled" in self.manifest:
            lines.append(f"stalled: {self.manifest['stalled']['message']}")
        if len(self.models) > 1:
            apart, where_ = self.deviation()
            lines.append(
                f"largest distance of the loss curves from the first model's, |ΔL| / L(0): {apart:.2g} at step {where_}"
            )
        return lines

    def deviation(self) -> tuple[float, int]:
        """Max |L_model − L_first| / L(0) over models, replicas and records, and the step where it is."""
        steps, loss = self.curves("train_loss")
        apart = np.abs(loss - loss[:1]) / loss[:1, :, :1]
        place = np.unravel_index(int(np.argmax(apart)), apart.shape)
        return float(apart[place]), int(steps[place[2]])


def _span(first: Mapping[str, Any], last: Mapping[str, Any], name: str, model: int) -> str:
    return f"{np.mean(first[name][model]):.4g} → {np.mean(last[name][model]):.4g}"


def list_runs(path: str | os.PathLike[str]) -> list[tuple[Path, dict[str, Any] | str]]:
    """The runs in a folder and in the folders below it: each with its manifest, or with what is wrong with it.

    Raises:
        InvalidInput: there is no such folder.
    """
    path = Path(path)
    if not path.is_dir():
        raise InvalidInput(f"{path} is no folder; `nqf train` makes runs below ./runs unless --out says otherwise.")
    found: list[tuple[Path, dict[str, Any] | str]] = []
    for file in sorted(path.rglob(manifests.FILE)):
        try:
            found.append((file.parent, directories.read_manifest(file.parent)))
        except Exception as error:  # one damaged run must not hide the others
            found.append((file.parent, str(error)))
    return found
