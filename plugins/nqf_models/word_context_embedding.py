"""The score of a word in a context, s_wc = u_w · v_c, as in skip-gram embeddings."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class WordContextEmbedding(nqf.Layer):
    r"""f(W) = Σ_r u_wr v_cr, the log-bilinear score of word w and context c; a neuron is one embedding dimension.

    A(w, c) = ½ [[0, e_w e_cᵀ], [e_c e_wᵀ, 0]]. The inputs are integers and pick rows; no one-hot vector is formed.

    Args:
        words: size of the vocabulary.
        contexts: number of contexts.
        width: d, the embedding dimension.
    """

    key = "word-context-embedding"
    claims = nqf.Claims(sign_symmetric=True, exact=True)
    title = "Word-context embedding"
    formula = r"s_{wc}(W)=u_w^\top v_c"
    structure_formula = r"A_{wc}=\frac{1}{2}\begin{bmatrix}0&e_we_c^\top\\e_ce_w^\top&0\end{bmatrix}"
    references = (
        nqf.Reference(
            "T. Mikolov, I. Sutskever, K. Chen, G. S. Corrado, J. Dean",
            "Distributed representations of words and phrases and their compositionality",
            2013,
            "Advances in Neural Information Processing Systems 26",
            arxiv="1310.4546",
        ),
        nqf.Reference(
            "Y. Goldberg, O. Levy",
            "word2vec explained: deriving Mikolov et al.'s negative-sampling word-embedding method",
            2014,
            arxiv="1402.3722",
        ),
    )
    convention = (
        "The output is the score itself. Under the logistic loss with targets +1 for observed and −1 for drawn pairs it is "
        "skip-gram with negative sampling. Indices count from zero."
    )
    notes = "The same quadratic form as matrix completion; the two differ in their loss and in which pairs are seen."

    words: int = 7
    contexts: int = 6
    width: int = 4

    def __post_init__(self):
        nqf.require_positive(self)

    def blocks(self):
        """One embedding dimension: its weight u on every word and v on every context."""
        return {"u": (self.words,), "v": (self.contexts,)}

    def sample(self, n, generator):
        """Pairs drawn uniformly: word (n,) and context (n,), integers."""
        return {
            "word": torch.randint(self.words, (n,), generator=generator),
            "context": torch.randint(self.contexts, (n,), generator=generator),
        }

    def forward(self, W, x):
        """u_w · v_c, (n, 1)."""
        return (W["u"].index_select(0, x["word"]) * W["v"].index_select(0, x["context"])).sum(-1, keepdim=True)

    def structure(self, x):
        """½ off(e_w e_cᵀ), by rows."""
        return nqf.quadratic("n,n->n", nqf.rows("u", x["word"]), nqf.rows("v", x["context"]))

    def offset(self, x):
        """f(0) = 0."""
        return 0.0


@nqf.hookimpl
def nqf_register(register):
    """Registers ``word-context-embedding``."""
    register(WordContextEmbedding)
