"""Small layers that the tests of the report show: plain, hostile in every text, and broken in several ways."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf

HOSTILE = (
    'a|b <script>alert(1)</script> & c_d $x^2$ 100% #1 {~} \\end{document} `code` *star* [link](http://x) "quote"\nsecond line'
)


@dataclass(frozen=True)
class Plain(nqf.Layer):
    """v · (u · x), exact."""

    key = "plain"
    title = "Plain"
    formula = r"f=\sum_i v_i\,u_i^\top x"
    structure_formula = r"A=\tfrac12\begin{pmatrix}0&x\\x^\top&0\end{pmatrix}"
    claims = nqf.Claims(sign_symmetric=True, exact=True)
    n_in: int = 3
    width: int = 4

    def blocks(self):
        return {"u": (self.n_in,), "v": (1,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def unit(self, w, x):
        return (x["x"] @ w["u"])[:, None] * w["v"]

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v")


@dataclass(frozen=True)
class Hostile(Plain):
    """Every text of it tries to be more than text."""

    key = "hostile"
    title = HOSTILE
    formula = r"x | y \input{/etc/passwd} \write18{ls} <img src=x onerror=alert(1)> $$"
    structure_formula = r"\|x\| < 1 \langle a | b \rangle & \\"
    convention = '=HYPERLINK("http://x") ' + HOSTILE
    notes = HOSTILE
    references = (nqf.Reference(HOSTILE, HOSTILE, 2020, HOSTILE, arxiv='1"><script>', doi='10.1/"><script>'),)


@dataclass(frozen=True)
class Raising(Plain):
    """Its forward pass raises."""

    key = "raising"
    title = "Raising"

    def unit(self, w, x):
        raise RuntimeError("it is broken")
