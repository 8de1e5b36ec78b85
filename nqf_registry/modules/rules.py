"""What each operation of a traced module says of the axes of its operands: which run together, and which are singled out.

A rule gets the axes of the operands and returns those of the result. Operations that are not known here fix everything they
touch: nothing is guessed of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from nqf_registry.modules import moves, sums
from nqf_registry.modules.operation import Call, Dims

Rule = Callable[[Call], Any]

UNKNOWN = "it goes through {name}, of which nothing is known here"


def unknown(call: Call) -> Any:
    """Whatever it does, nothing that goes in may be permuted."""
    reason = UNKNOWN.format(name=call.name)
    for operand in [*call.args, *call.kwargs.values()]:
        for tensor in operand if isinstance(operand, tuple | list) else [operand]:
            if isinstance(tensor, Tensor):
                for dim in call.dims(tensor):
                    call.axes.fix(dim, reason)

    def new(result: Tensor) -> Dims:
        return [call.axes.new(size, reason) for size in result.shape]

    if isinstance(call.result, tuple | list):
        return [new(result) if isinstance(result, Tensor) else [] for result in call.result]
    return new(call.result) if isinstance(call.result, Tensor) else []


# fmt: off
_ELEMENTWISE = (
    "abs", "acos", "acosh", "add", "addcdiv", "addcmul", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "ceil", "celu", "clamp", "clamp_max", "clamp_min", "copy", "cos", "cosh",
    "div", "elu", "eq", "erf", "erfc", "exp", "exp2", "expm1", "floor", "floor_divide", "fmax", "fmin", "fmod", "ge",
    "gelu", "gt", "hardsigmoid", "hardswish", "hardtanh", "isfinite", "isinf", "isnan", "le", "leaky_relu", "lerp", "log",
    "log10", "log1p", "log2", "log_sigmoid", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor",
    "logit", "lt", "masked_fill", "maximum", "minimum", "mish", "mul", "ne", "neg", "pow", "prelu", "reciprocal", "relu",
    "relu6", "remainder", "round", "rsqrt", "rsub", "selu", "sgn", "sigmoid", "sign", "silu", "sin", "sinc", "sinh",
    "softplus", "softsign", "sqrt", "square", "sub", "tan", "tanh", "threshold", "trunc", "where", "xlogy", "_prelu_kernel",
    "_to_copy",
)
_SAME = (
    "_softmax", "_log_softmax", "softmax", "log_softmax", "clone", "contiguous", "alias", "detach", "to", "lift_fresh",
    "lift_fresh_copy", "positive", "dropout", "_safe_softmax",
)
_VIEWS = (
    "view", "_unsafe_view", "reshape", "flatten", "unflatten", "_reshape_alias",
)
_REDUCED = (
    "sum", "mean", "amax", "amin", "any", "all", "logsumexp", "prod", "var", "std", "var_mean", "std_mean",
    "linalg_vector_norm", "norm",
)
_CONSTANT = (
    "full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "empty", "empty_like", "new_zeros", "new_ones",
    "new_full", "scalar_tensor",
)
_POOLED = (
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d",
    "max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "constant_pad_nd", "upsample_nearest2d",
    "upsample_bilinear2d", "upsample_nearest1d", "reflection_pad1d", "reflection_pad2d", "replication_pad1d",
    "replication_pad2d",
)
# fmt: on

RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, sums.elementwise),
    **dict.fromkeys(_SAME, moves.unchanged),
    **dict.fromkeys(_VIEWS, moves.viewed),
    **dict.fromkeys(_REDUCED, sums.reduced),
    **dict.fromkeys(_CONSTANT, moves.constant),
    **dict.fromkeys(_POOLED, sums.pooled),
    **dict.fromkeys(("mm", "bmm"), sums.product),
    **dict.fromkeys(("addmm", "baddbmm"), sums.product_and_sum),
    **dict.fromkeys(("t", "transpose"), moves.transposed),
    **dict.fromkeys(("squeeze",), moves.squeezed),
    **dict.fromkeys(("split", "split_with_sizes", "chunk"), moves.split),
    **dict.fromkeys(("index_select", "gather"), moves.indexed),
    **dict.fromkeys(("cumsum", "cumprod", "flip", "roll"), moves.running),
    "permute": moves.permuted,
    "expand": moves.expanded,
    "unsqueeze": moves.unsqueezed,
    "select": moves.picked,
    "slice": moves.sliced,
    "cat": moves.joined,
    "stack": moves.stacked,
    "embedding": moves.looked_up,
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), moves.bagged),
    "arange": moves.numbered,
    "convolution": sums.convolved,
    "native_layer_norm": sums.normalised,
    "native_group_norm": sums.group_normalised,
    **dict.fromkeys(
        ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "cudnn_batch_norm"),
        sums.batch_normalised,
    ),
    "_trilinear": sums.trilinear,
}


def rule_for(name: str) -> Rule:
    """The rule of an operation by its name; in-place ones have that of their plain form."""
    return RULES.get(name) or RULES.get(name.removesuffix("_")) or unknown
