"""scikit-learn's embedded digits, odd against even: the default data set. Nothing is downloaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from nqf_registry.train.data import Data, named
from nqf_registry.train.numbers import SEEDS, whole

TEST = 360


@named("digits")
def digits(layer: Any, seed: int = 0) -> Data:
    """1,797 images of 8 × 8 pixels, labelled +1 where the digit is odd and −1 where it is even: 1,437 to train on, 360 to test.

    Pixels are x/16, which lies in [0, 1], divided by one number such that the mean of ‖x‖² over the training images is 1. At
    that size a unit of norm one sees pre-activations below one, where the quadratic form is to be compared with the layer.

    Args:
        layer: who will learn them; it encodes the 64 features, or says why it cannot.
        seed: of the split.

    Raises:
        InvalidInput: the layer's inputs do not hold 64 numbers.
    """
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return labelled_images(layer, "digits", np.asarray(pixels) / 16, np.asarray(labels), TEST, seed)


def labelled_images(layer: Any, name: str, pixels: np.ndarray, labels: np.ndarray, tests: int, seed: int) -> Data:
    """Images in [0, 1], (n, features), as odd against even: split by seed, scaled by the training set, encoded for a layer."""
    seed = whole(f"{name}: seed", seed, 0, SEEDS)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    x, y = torch.from_numpy(pixels).double()[order], torch.from_numpy(labels % 2 * 2 - 1).double()[order, None]
    train = len(y) - tests
    norm = float(x[:train].square().sum(1).mean().sqrt())
    x = x / norm
    return Data(
        x=layer.encode(x[:train].float()),
        y=y[:train].float(),
        name=name,
        test_x=layer.encode(x[train:].float()),
        test_y=y[train:].float(),
        info={"targets": "+1 odd, -1 even", "pixels": f"in [0, 1], divided by {norm:.6f}", "split_seed": seed},
    )
