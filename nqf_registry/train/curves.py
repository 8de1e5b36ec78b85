"""The figure of a run: loss curves, originals solid, their quadratic forms dashed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nqf_registry.errors import InvalidInput, StorageError

if TYPE_CHECKING:
    from nqf_registry.train.runs import Run

STYLES = ("-", "--", ":", "-.")
COLOURS = (
    "#1b6ca8",
    "#d1495b",
    "#3a7d44",
    "#8d6a9f",
    "#c98a1b",
    "#4b9aaa",
    "#7a4a2b",
    "#5c5c5c",
)  # told apart in print and by the colour-blind


def plot_losses(run: Run, path: Path) -> Path:
    """Draws training loss, and test loss and accuracy where there is a test set, against the step, or the time of a flow.

    The loss axis is logarithmic where the loss falls by more than a factor of five. The step axis is logarithmic from step 1
    on, so that step 0 has a place on it.

    Raises:
        InvalidInput: nothing was recorded, or the ending of the path is no format.
        StorageError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not run.records:
        raise InvalidInput("this run recorded nothing, so there is no curve to draw.")
    data = run.data
    test = "test_accuracy" in data
    figure = Figure(figsize=(10 if test else 6.2, 4.2), layout="constrained")
    formats = FigureCanvasAgg(figure).get_supported_filetypes()
    if path.suffix.lstrip(".") not in formats:
        raise InvalidInput(f"a figure needs one of the endings {', '.join(sorted(formats))}; got {path.name!r}.")
    axes = figure.subplots(1, 2 if test else 1, squeeze=False)[0]
    _lines(axes[0], run, [name for name in ("train_loss", "test_loss") if name in data])
    axes[0].set_ylabel("loss")
    losses = data["train_loss"].values
    if losses.min() > 0 and losses.max() > 5 * losses.min():
        axes[0].set_yscale("log")
    else:
        axes[0].set_ylim(bottom=0)
    if test:
        _lines(axes[1], run, ["test_accuracy"])
        axes[1].set_ylabel("test accuracy")
    along, what = _along(run)
    first = float(along[1]) if what == "time" and len(along) > 1 else 1.0
    for axis in axes:
        axis.set_xscale("symlog", linthresh=first, linscale=0.3)
        axis.set_xlim(0, max(float(along[-1]), first))
        axis.set_xlabel(what)
        axis.grid(alpha=0.25, which="major")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=9)
    title = f"{run.manifest['subject']['key']} on {run.manifest['data']['name']}"
    figure.suptitle(title if run.status == "finished" else f"{title} ({run.status})", fontsize=11)
    try:
        # neither date nor version in the file, so that the same run gives the same bytes
        figure.savefig(path, dpi=160, metadata={"Software": None} if path.suffix == ".png" else {})
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}.") from error
    return path


def _along(run: Run) -> tuple[Any, str]:
    """What curves are drawn against: steps, or the times of a gradient flow."""
    if run.manifest["settings"].get("times"):
        return run.data["time"].values[0], "time"
    return run.data["step"].values, "step"


def plot_runs(runs: Sequence[Run], names: Sequence[str], path: Path) -> Path:
    """Draws the training loss of several runs in one picture: a colour a run, a line style a model.

    Of several replicas the mean is drawn, with their range as a band.

    Raises:
        InvalidInput: nothing was recorded, or the ending of the path is no format.
        StorageError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not all(run.records for run in runs):
        empty = next(name for run, name in zip(runs, names, strict=True) if not run.records)
        raise InvalidInput(f"the run {empty} recorded nothing, so there is no curve to draw.")
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    formats = FigureCanvasAgg(figure).get_supported_filetypes()
    if path.suffix.lstrip(".") not in formats:
        raise InvalidInput(f"a figure needs one of the endings {', '.join(sorted(formats))}; got {path.name!r}.")
    axis = figure.subplots()
    models = list(dict.fromkeys(model for run in runs for model in run.models))
    low, high = float("inf"), 0.0
    for r, (run, name) in enumerate(zip(runs, names, strict=True)):
        for model in run.models:
            steps, loss = run.curves("train_loss", model)
            low, high = min(low, float(loss.min())), max(high, float(loss.max()))
            colour, m = COLOURS[r % len(COLOURS)], models.index(model)
            label = f"{name}, {model}" if len(models) > 1 else name
            axis.plot(
                steps, loss.mean(0), color=colour, linestyle=STYLES[m % len(STYLES)], linewidth=1.6, label=label, zorder=2 + m
            )
            if len(loss) > 1:
                axis.fill_between(steps, loss.min(0), loss.max(0), color=colour, alpha=0.15, linewidth=0)
    if low > 0 and high > 5 * low:
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
    axis.set_xscale("symlog", linthresh=1, linscale=0.3)
    axis.set_xlim(0, max(*(int(run.records[-1]["step"]) for run in runs), 1))
    axis.set_xlabel("step")
    axis.set_ylabel("training loss")
    axis.grid(alpha=0.25, which="major")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    try:
        figure.savefig(path, dpi=160, metadata={"Software": None} if path.suffix == ".png" else {})
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}.") from error
    return path


def _lines(axis: Any, run: Run, variables: list[str]) -> None:
    along, _ = _along(run)
    for m, model in enumerate(run.models):
        for variable in variables:
            faint = variable == "test_loss"
            for r, curve in enumerate(run.data[variable].values[m]):
                axis.plot(
                    along,
                    curve,
                    color=COLOURS[m % len(COLOURS)],
                    linestyle="-" if model == "original" else "--",
                    linewidth=1.0 if faint else 1.8,
                    alpha=0.45 if faint else (1.0 if run.data.sizes["replica"] == 1 else 0.7),
                    label=f"{model}{', test' if faint else ''}" if r == 0 else None,
                    # the dashed curve lies on the solid one where the theory holds: it must be seen
                    zorder=3 if model != "original" else 2,
                )
