"""Layers of torch.nn, as one makes them, with the units that a person would declare."""

from entry import Entry, Units, draw, tokens
from torch import nn


def perceptron(name, activation, bias=True):
    """Linear, φ, Linear: the hidden units."""
    patterns = {"0.weight": "d i -> d i", "2.weight": "o d -> d o"} | ({"0.bias": "d -> d"} if bias else {})

    def make():
        return nn.Sequential(nn.Linear(4, 6, bias=bias), activation, nn.Linear(6, 2, bias=bias)), draw(5, 4)

    return Entry(name, make, [Units(patterns)])


def convolution(rank):
    """Convolution, tanh, global average, readout: the channels."""
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank - 1]
    pool = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)[rank - 1]
    axes = " ".join("xyz"[:rank])
    units = Units({"0.weight": f"d c {axes} -> d c {axes}", "0.bias": "d -> d", "4.weight": "o d -> d o"})

    def make():
        return nn.Sequential(conv(2, 5, 3), nn.Tanh(), pool(1), nn.Flatten(), nn.Linear(5, 2)), draw(3, 2, *[4] * rank)

    return Entry(f"Conv{rank}d, Tanh, AdaptiveAvgPool{rank}d, Linear", make, [units])


def pooled():
    """Convolution, ReLU, maximum, readout at every place left: the channels."""
    units = Units({"0.weight": "d c x y -> d c x y", "0.bias": "d -> d", "4.weight": "o (d a) -> d o a"}, {"a": 4})

    def make():
        return nn.Sequential(nn.Conv2d(2, 5, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(20, 2)), draw(3, 2, 5, 5)

    return Entry("Conv2d, ReLU, MaxPool2d, Flatten, Linear", make, [units])


def attention(name, patterns, inside, sizes, **settings):
    """Self-attention: the heads, and the entries of a head."""

    def make():
        shapes = (6, settings.get("kdim", 6), settings.get("vdim", 6))
        return nn.MultiheadAttention(6, 2, batch_first=True, **settings), tuple(draw(4, 4, size) for size in shapes)

    return Entry(name, make, [Units(patterns, sizes), Units(inside, sizes)])


PACKED = {"in_proj_weight": "(t h k) m -> h t k m", "in_proj_bias": "(t h k) -> h t k", "out_proj.weight": "m (h k) -> h m k"}
PACKED_INSIDE = {
    "in_proj_weight": "(t h k) m -> k t h m",
    "in_proj_bias": "(t h k) -> k t h",
    "out_proj.weight": "m (h k) -> k m h",
}
APART = {name: "(h k) m -> h k m" for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight")}
APART_INSIDE = {name: "(h k) m -> k h m" for name in APART}
REST, REST_INSIDE = (
    {name: pattern for name, pattern in patterns.items() if name != "in_proj_weight"} for patterns in (PACKED, PACKED_INSIDE)
)


def block(name, make, prefixes, hidden):
    """A transformer's block: heads and their entries of each attention, and the hidden units of its perceptron."""
    units = []
    for prefix in prefixes:
        units += [
            Units({f"{prefix}.{n}": p for n, p in patterns.items()}, {"t": 3, "h": 2}) for patterns in (PACKED, PACKED_INSIDE)
        ]
    return Entry(name, make, [*units, Units(hidden)])


HIDDEN = {"linear1.weight": "d i -> d i", "linear1.bias": "d -> d", "linear2.weight": "o d -> d o"}


def encoder(norm_first):
    """A function that makes an encoder's block."""

    def make():
        layer = nn.TransformerEncoderLayer(6, 2, 5, batch_first=True, norm_first=norm_first, activation="gelu")
        return layer.eval(), draw(4, 4, 6)

    return make


def decoder():
    """A decoder's block, with tokens and what they attend to."""
    return nn.TransformerDecoderLayer(6, 2, 5, batch_first=True).eval(), (draw(4, 4, 6), draw(4, 3, 6))


def gated():
    """Half of the hidden units gate the other half: a unit is a pair of rows."""
    units = Units({"0.weight": "(g d) i -> d g i", "0.bias": "(g d) -> d g", "2.weight": "o d -> d o"}, {"g": 2})
    return Entry(
        "Linear, GLU, Linear", lambda: (nn.Sequential(nn.Linear(4, 12), nn.GLU(), nn.Linear(6, 2)), draw(5, 4)), [units]
    )


def normalised():
    """Layer norm between the layers: its scale and shift belong to the units."""
    patterns = {
        "0.weight": "d i -> d i",
        "0.bias": "d -> d",
        "1.weight": "d -> d",
        "1.bias": "d -> d",
        "3.weight": "o d -> d o",
    }

    def make():
        return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 2)), draw(5, 4)

    return Entry("Linear, LayerNorm, Tanh, Linear", make, [Units(patterns)])


def depthwise():
    """A convolution of each channel by itself, between two that mix them."""
    units = Units(
        {
            "0.weight": "d c k -> d c k",
            "0.bias": "d -> d",
            "1.weight": "d i k -> d i k",
            "1.bias": "d -> d",
            "3.weight": "o d k -> d o k",
        }
    )

    def make():
        middle = nn.Conv1d(4, 4, 3, groups=4)
        return nn.Sequential(nn.Conv1d(2, 4, 1), middle, nn.SiLU(), nn.Conv1d(4, 3, 1)), draw(3, 2, 6)

    return Entry("Conv1d, depthwise Conv1d, SiLU, Conv1d", make, [units])


LAYERS = [
    perceptron("Linear, Tanh, Linear, no biases", nn.Tanh(), bias=False),
    perceptron("Linear, Tanh, Linear", nn.Tanh()),
    perceptron("Linear, GELU, Linear", nn.GELU()),
    perceptron("Linear, ReLU, Linear, no biases", nn.ReLU(), bias=False),
    perceptron("Linear, Identity, Linear, no biases", nn.Identity(), bias=False),
    convolution(1),
    convolution(2),
    convolution(3),
    pooled(),
    depthwise(),
    gated(),
    normalised(),
    attention("MultiheadAttention, packed", PACKED, PACKED_INSIDE, {"t": 3, "h": 2}),
    attention("MultiheadAttention, unpacked", APART | REST, APART_INSIDE | REST_INSIDE, {"t": 3, "h": 2}, kdim=4, vdim=5),
    block("TransformerEncoderLayer, pre-norm", encoder(True), ["self_attn"], HIDDEN),
    block("TransformerEncoderLayer, post-norm", encoder(False), ["self_attn"], HIDDEN),
    block("TransformerDecoderLayer", decoder, ["self_attn", "multihead_attn"], HIDDEN),
    Entry(
        "Embedding, Linear, no bias",
        lambda: (nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 4, bias=False)), tokens(5, 10)),
        [Units({"0.weight": "v d -> d v", "1.weight": "o d -> d o"})],
    ),
    Entry(
        "EmbeddingBag, Linear",
        lambda: (nn.Sequential(nn.EmbeddingBag(5, 3), nn.Linear(3, 4)), tokens(5, 10, 3)),
        [Units({"0.weight": "v d -> d v", "1.weight": "o d -> d o"})],
    ),
    Entry("Linear", lambda: (nn.Linear(4, 3), draw(5, 4)), []),
    Entry("Bilinear", lambda: (nn.Bilinear(3, 4, 2), (draw(5, 3), draw(5, 4))), []),
    Entry("GRUCell", lambda: (nn.GRUCell(3, 4), (draw(5, 3), draw(5, 4))), []),
    Entry("LSTMCell", lambda: (nn.LSTMCell(3, 4), draw(5, 3)), []),
    Entry("RNN", lambda: (nn.RNN(3, 4, batch_first=True), draw(5, 6, 3)), []),
]
