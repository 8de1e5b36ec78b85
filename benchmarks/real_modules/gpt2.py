"""The two blocks of GPT-2 at their real sizes: verdict, inert parts, the fastest growth rates, and what they took.

python benchmarks/real_modules/gpt2.py [attention|perceptron]
"""

import resource
import sys
import time

import torch
from transformers import GPT2Config
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP, GPT2Attention

import nqf_registry as nqf

SAMPLES, TOKENS, WIDTH = 2, 128, 768
SECONDS, GIB = 60, 4


def blocks():
    """By name, a block with freshly drawn weights and its inputs; attention is causal, as the model calls it."""
    config = GPT2Config()  # 12 heads, and 4 · 768 hidden units
    config._attn_implementation = "eager"
    tokens = torch.randn(SAMPLES, TOKENS, WIDTH, generator=torch.Generator().manual_seed(0))
    mask = torch.full((TOKENS, TOKENS), torch.finfo(torch.float32).min).triu(1).expand(SAMPLES, 1, TOKENS, TOKENS)
    return {
        "attention": (GPT2Attention(config).eval(), {"hidden_states": tokens, "attention_mask": mask}),
        "perceptron": (GPT2MLP(4 * WIDTH, config).eval(), tokens),
    }


def main():
    """Prints an analysis of each, and exits with 1 where one took longer or more memory than it may."""
    late = False
    for name, (module, example) in blocks().items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        begin = time.perf_counter()
        seen = nqf.analyze(module, example)
        seconds, memory = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(seen)
        print(f"  took {seconds:.0f} s (at most {SECONDS}) and {memory:.1f} GiB (at most {GIB})\n", flush=True)
        late |= seconds > SECONDS or memory > GIB or any(len(group.growth.rates) < 8 for group in seen.groups)
    raise SystemExit(int(late))


if __name__ == "__main__":
    main()
