"""One convolution, an activation, sum pooling and a linear readout."""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

import nqf_registry as nqf


@dataclass(frozen=True)
class SingleLayerCNN(nqf.Layer):
    r"""f(W) = Σ_i v_i Σ_P φ(k_i · x_P), a neuron being one channel: its filter k_i and its readout v_i.

    A(x) = ½ φ'(0) [[0, s], [sᵀ, 0]] with s = Σ_P x_P, the sum of all patches that the filter meets.

    Args:
        channels: channels of the image.
        rows: height of the image.
        columns: width of the image.
        kernel_rows: height of the filter.
        kernel_columns: width of the filter.
        stride: step of the filter in both directions.
        n_out: number of outputs, v_i ∈ R^n_out.
        width: d, the number of convolution channels.
        activation: φ, a name that ``nqf.activation`` knows.
    """

    key = "single-layer-cnn"
    title = "Single-layer CNN"
    formula = r"f_x(W)=\sum_{i=1}^{d} v_i\sum_{P}\phi(k_i^\top x_P)"
    structure_formula = r"A(x)=\frac{\phi'(0)}{2}\begin{bmatrix}0&\sum_P x_P\\\sum_P x_P^\top&0\end{bmatrix}"
    references = (
        nqf.Reference(
            "A. Krizhevsky, I. Sutskever, G. E. Hinton",
            "ImageNet classification with deep convolutional neural networks",
            2012,
            "Advances in Neural Information Processing Systems 25",
        ),
        nqf.Reference(
            "S. Du, J. Lee, Y. Tian, A. Singh, B. Poczos",
            "Gradient descent learns one-hidden-layer CNN: don't be afraid of spurious local minima",
            2018,
            "International Conference on Machine Learning, 1339–1348",
        ),
        nqf.Reference(
            "Y. Cao, Q. Gu",
            "Tight sample complexity of learning one-hidden-layer convolutional neural networks",
            2019,
            "Advances in Neural Information Processing Systems 32",
        ),
    )
    convention = (
        "w_i = (k_i, v_i), no padding, no biases, and the patches are summed, not averaged. The filter is not flipped "
        "(cross-correlation). A feature table of channels · rows · columns numbers is read as images in that order, "
        "row-major."
    )
    notes = (
        "At quadratic order the layer sees only the sum of the patches. What is said of the activation in the two-layer MLP "
        "holds here; φ(0) ≠ 0 gives g = P φ(0) on v, P being the number of patches."
    )

    channels: int = 2
    rows: int = 5
    columns: int = 6
    kernel_rows: int = 3
    kernel_columns: int = 2
    stride: int = 1
    n_out: int = 2
    width: int = 16
    activation: str = "tanh"

    def __post_init__(self):
        nqf.require_positive(self)
        nqf.activation(self.activation)
        if self.kernel_rows > self.rows or self.kernel_columns > self.columns:
            raise nqf.InvalidInput(
                f"the kernel ({self.kernel_rows} × {self.kernel_columns}) must fit into the image "
                f"({self.rows} × {self.columns}); there is no padding."
            )

    @property
    def claims(self):
        """What holds for this activation."""
        phi = nqf.activation(self.activation)
        return nqf.Claims(zgz=phi.value == 0, sign_symmetric=phi.odd, exact=phi.name == "identity")

    @property
    def positions(self):
        """How many positions the filter takes, down and across."""
        return (self.rows - self.kernel_rows) // self.stride + 1, (self.columns - self.kernel_columns) // self.stride + 1

    def blocks(self):
        """The filter k and the readout v of one channel."""
        return {"k": (self.channels, self.kernel_rows, self.kernel_columns), "v": (self.n_out,)}

    def sample(self, n, generator):
        """Standard normal images x (n, channels, rows, columns)."""
        return {"x": torch.randn(n, self.channels, self.rows, self.columns, generator=generator)}

    def forward(self, W, x):
        """Convolution, φ, sum over positions, readout: (n, n_out)."""
        maps = F.conv2d(x["x"], W["k"].permute(3, 0, 1, 2), stride=self.stride)  # (n, d, down, across)
        return nqf.activation(self.activation)(maps).sum((-2, -1)) @ W["v"].mT

    def linearise(self, W, x):
        """Both in one pass, as matrix products with the patches that the filter meets.

        With patches x_P, maps h = k · x_P and a cotangent c: k by Σ_P x_P (φ'(h) ∘ c v), v by cᵀ Σ_P φ(h).
        """
        (down, across), n = self.positions, len(x["x"])
        patches = self.patches(x["x"])  # (down, across n, entries of a filter)
        filters = W["k"].permute(3, 1, 0, 2).reshape(-1, patches.shape[-1])  # (d, entries in the order of a patch)
        maps = torch.bmm(filters.expand(down, -1, -1), patches.mT).view(down, len(filters), across, n)
        values, back = nqf.activation(self.activation).linearise(maps, overwrite=True)
        pooled = values.sum(0).sum(1)  # (d, n); one axis after the other is quicker

        def pullback(cotangent):
            by_pooled = (cotangent @ W["v"]).mT.contiguous()
            by_map = back(by_pooled[:, None].expand_as(values)).reshape(down, len(filters), across * n)
            by_filter = torch.bmm(by_map, patches).sum(0).view(-1, self.kernel_rows, self.channels, self.kernel_columns)
            return {"k": by_filter.permute(2, 1, 3, 0), "v": cotangent.mT @ pooled.mT}

        return pooled.mT @ W["v"].mT, pullback

    def patches(self, image):
        """The patches by position down: (down, across · n, kernel_rows · channels · kernel_columns), not formed in full.

        The strip of columns that a filter meets at one position across is laid out row by row. In it the patches at all
        positions down overlap, each a run of numbers, so that a matrix product can read them where they are.
        """
        down, across = self.positions
        row = self.channels * self.kernel_columns  # numbers in a row of a strip
        strips = image.unfold(3, self.kernel_columns, self.stride).permute(3, 0, 2, 1, 4).contiguous()
        shape = (down, across * len(image), self.kernel_rows * row)
        return strips.as_strided(shape, (self.stride * row, self.rows * row, 1))

    def structure(self, x):
        """½ φ'(0) off(Σ_P x_P) for each output."""
        return nqf.quadratic("cab,ncab,o->no", "k", self.patch_sum(x["x"]), "v", scale=nqf.activation(self.activation).slope)

    def linear(self, x):
        """The gradient at zero: P φ(0) on the output's own entry of v."""
        down, across = self.positions
        n, eye = len(x["x"]), torch.eye(self.n_out, dtype=x["x"].dtype, device=x["x"].device)
        return {"v": (down * across * nqf.activation(self.activation).value * eye).expand(n, -1, -1)}  # (n, k, n_out)

    def cross(self, x):
        """Zero: f is a sum over channels."""
        return 0.0 * self.structure(x)

    def offset(self, x):
        """f(0) = 0."""
        return 0.0

    def patch_sum(self, image):
        """Σ_P x_P, (n, channels, kernel_rows, kernel_columns).

        A pixel belongs to filter entry (a, b) at some position if a zero-one matrix of the rows and one of the columns both say
        so, which makes the sum two small matrix products and no patch is ever unfolded.
        """
        down, across = (
            _reach(size, kernel, count, self.stride, image)
            for size, kernel, count in zip(
                (self.rows, self.columns), (self.kernel_rows, self.kernel_columns), self.positions, strict=True
            )
        )
        return down @ image @ across.mT


def _reach(size, kernel, count, stride, like):
    """(kernel, size) matrix that is one where filter entry a meets pixel a + stride · position for some position."""
    hit = torch.zeros(kernel, size, dtype=like.dtype, device=like.device)
    a, position = torch.arange(kernel, device=like.device)[:, None], torch.arange(count, device=like.device)
    return hit.scatter_(1, a + stride * position, 1.0)


@nqf.hookimpl
def nqf_register(register):
    """Registers ``single-layer-cnn``."""
    register(SingleLayerCNN)
