"""Layers of transformers and peft, at small sizes, with the units that a person would declare."""

import importlib

import peft
import torch
from entry import Entry, Units, draw
from torch import nn
from transformers import logging

logging.set_verbosity_error()
LAYERED = ("LlamaAttention", "MambaMixer")  # which layer of a model they are is told too


class Called(nn.Module):
    """An attention that is called with more than tensors: the rotations of its positions, as its model gives them."""

    def __init__(self, attention, rotary):
        """From the attention and what computes the rotations."""
        super().__init__()
        self.attention, self.rotary = attention, rotary

    def forward(self, x):
        """The outputs at tokens x."""
        positions = torch.arange(x.shape[1], device=x.device)[None]
        return self.attention(x, position_embeddings=self.rotary(x, positions), attention_mask=None)[0]


def of(family, layer, config, *more, **sizes):
    """A function that makes a layer of transformers, its weights drawn anew, and an example."""

    def make():
        models = f"transformers.models.{family}"
        settings = getattr(importlib.import_module(f"{models}.configuration_{family}"), config)(**sizes)
        settings._attn_implementation = "eager"
        cls = getattr(importlib.import_module(f"{models}.modeling_{family}"), layer)
        module = cls(settings, 0) if layer in LAYERED else cls(*more, settings)
        if layer == "LlamaAttention":
            module = Called(module, importlib.import_module(f"{models}.modeling_{family}").LlamaRotaryEmbedding(settings))
        for p in module.parameters():
            nn.init.normal_(p, std=0.3)
        return module.eval(), draw(3, 4, 6)

    return make


def adapted(config, *layers):
    """A function that makes layers with an adapter of peft."""

    def make():
        return peft.get_peft_model(nn.Sequential(*layers), config).eval(), draw(5, 4)

    return make


def gated(gate, up, down):
    """Two rows that are multiplied, and a column."""
    return [Units({gate: "d i -> d i", up: "d i -> d i", down: "o d -> d o"})]


def hidden(first, second):
    """A row with its bias, and a column."""
    return [Units({f"{first}.weight": "d i -> d i", f"{first}.bias": "d -> d", f"{second}.weight": "o d -> d o"})]


SIX = {"hidden_size": 6, "intermediate_size": 5}
LLAMA = SIX | {"num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 4, "num_hidden_layers": 1}
PACKED = {"c_attn.weight": "m (t h k) -> h t k m", "c_attn.bias": "(t h k) -> h t k", "c_proj.weight": "(h k) m -> h k m"}
GROUPED = {"q_proj": "(h g k) m -> h g k m", "k_proj": "(h k) m -> h k m", "v_proj": "(h k) m -> h k m"}
QUERIES = Units(
    {"attention.q_proj.weight": "(h g k) m -> g h k m", "attention.o_proj.weight": "m (h g k) -> g h k m"}, {"h": 3, "g": 2}
)
GROUPS = Units(
    {f"attention.{name}.weight": pattern for name, pattern in GROUPED.items()}
    | {"attention.o_proj.weight": "m (h g k) -> h g k m"},
    {"h": 3, "g": 2},
)
VALUES = Units(
    {"attention.v_proj.weight": "(h k) m -> k h m", "attention.o_proj.weight": "m (h g k) -> k h g m"}, {"h": 3, "g": 2}
)
LOW_RANK = Units(
    {
        "base_model.model.0.lora_A.default.weight": "d i -> d i",
        "base_model.model.0.lora_B.default.weight": "o d -> d o",
    }
)
SCALED = Units(
    {
        "base_model.model.0.base_layer.weight": "d i -> d i",
        "base_model.model.0.base_layer.bias": "d -> d",
        "base_model.model.0.ia3_l.default": "d i -> d i",
        "base_model.model.2.weight": "o d -> d o",
    }
)
HADAMARD = [
    Units({f"base_model.model.0.hada_w{i}_a.default": "o d -> d o", f"base_model.model.0.hada_w{i}_b.default": "d i -> d i"})
    for i in (1, 2)
]
EXPERTS = Units({"gate.weight": "d i -> d i", "experts.gate_up_proj": "d f i -> d f i", "experts.down_proj": "d o f -> d o f"})
EXPERT_UNITS = Units({"experts.gate_up_proj": "e (g d) i -> d e g i", "experts.down_proj": "e o d -> d e o"}, {"g": 2})
CHANNELS = Units(
    {
        "A_log": "d a -> d a",
        "D": "d -> d",
        "conv1d.weight": "d b c -> d b c",
        "conv1d.bias": "d -> d",
        "in_proj.weight": "(e d) f -> d e f",
        "x_proj.weight": "g d -> d g",
        "dt_proj.weight": "d h -> d h",
        "dt_proj.bias": "d -> d",
        "out_proj.weight": "i d -> d i",
    },
    {"e": 2},
)


def transformers_entry(name, make, units):
    """An entry of transformers."""
    return Entry(name, make, units, "transformers")


LAYERS = [
    transformers_entry(
        "LlamaMLP (SwiGLU)",
        of("llama", "LlamaMLP", "LlamaConfig", **LLAMA),
        gated("gate_proj.weight", "up_proj.weight", "down_proj.weight"),
    ),
    transformers_entry(
        "GemmaMLP (GeGLU)",
        of("gemma", "GemmaMLP", "GemmaConfig", **SIX),
        gated("gate_proj.weight", "up_proj.weight", "down_proj.weight"),
    ),
    transformers_entry(
        "T5DenseGatedActDense",
        of("t5", "T5DenseGatedActDense", "T5Config", d_model=6, d_ff=5, feed_forward_proj="gated-gelu"),
        gated("wi_0.weight", "wi_1.weight", "wo.weight"),
    ),
    transformers_entry(
        "GPT2MLP",
        of("gpt2", "GPT2MLP", "GPT2Config", 5, n_embd=6, n_head=2),
        [Units({"c_fc.weight": "i d -> d i", "c_fc.bias": "d -> d", "c_proj.weight": "d o -> d o"})],
    ),
    transformers_entry(
        "GPT2Attention",
        of("gpt2", "GPT2Attention", "GPT2Config", n_embd=6, n_head=2),
        [
            Units(PACKED, {"t": 3, "h": 2}),
            Units(
                {n: p.replace("-> h t k", "-> k t h").replace("-> h k", "-> k h") for n, p in PACKED.items()}, {"t": 3, "h": 2}
            ),
        ],
    ),
    transformers_entry("ViTMLP", of("vit", "ViTMLP", "ViTConfig", **SIX), hidden("fc1", "fc2")),
    transformers_entry(
        "GPTNeoXMLP",
        of("gpt_neox", "GPTNeoXMLP", "GPTNeoXConfig", num_attention_heads=2, **SIX),
        hidden("dense_h_to_4h", "dense_4h_to_h"),
    ),
    transformers_entry(
        "LlamaAttention (grouped queries)",
        of("llama", "LlamaAttention", "LlamaConfig", **LLAMA),
        [GROUPS, QUERIES, VALUES],
    ),
    transformers_entry(
        "MixtralSparseMoeBlock",
        of("mixtral", "MixtralSparseMoeBlock", "MixtralConfig", num_local_experts=3, num_experts_per_tok=2, **SIX),
        [EXPERTS, EXPERT_UNITS],
    ),
    transformers_entry(
        "MambaMixer (state space)",
        of("mamba", "MambaMixer", "MambaConfig", hidden_size=6, state_size=3, conv_kernel=2, expand=2, time_step_rank=2),
        [CHANNELS],
    ),
    Entry(
        "LoRA of Linear",
        adapted(peft.LoraConfig(r=3, target_modules=["0"]), nn.Linear(4, 5, bias=False)),
        [LOW_RANK],
        "peft",
    ),
    Entry("LoHa of Linear", adapted(peft.LoHaConfig(r=3, target_modules=["0"]), nn.Linear(4, 5, bias=False)), HADAMARD, "peft"),
    Entry(
        "(IA)³ of Linear, Tanh, Linear",
        adapted(peft.IA3Config(target_modules=["0"], feedforward_modules=[]), nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)),
        [SCALED],
        "peft",
    ),
]
