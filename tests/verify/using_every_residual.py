"""A program that uses every residual by itself. It runs where hypothesis and pytest cannot be imported as well."""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.util import spec_from_loader

REFUSED = {"hypothesis", "_hypothesis_pytestplugin", "pytest", "_pytest"}


class Refusing(MetaPathFinder, Loader):
    """Refuses at import, not when asked: torch asks whether hypothesis is there, and does not import it."""

    def find_spec(self, fullname, path=None, target=None):
        return spec_from_loader(fullname, self) if fullname.partition(".")[0] in REFUSED else None

    def exec_module(self, module):
        raise ModuleNotFoundError(f"{module.__name__} is refused here", name=module.__name__)


sys.meta_path.insert(0, Refusing())

import torch  # noqa: E402

import nqf_registry as nqf  # noqa: E402
from nqf_registry.verify import residuals  # noqa: E402


class Written(type(nqf.default_registry().get("quadratic-network"))):
    """A layer that writes both of its gradients itself."""

    def pullback(self, W, x, cotangent):
        return nqf.quadratic_form(exact, x).pullback(W, cotangent)

    def linearise(self, W, x):
        return self(W, x), lambda cotangent: self.pullback(W, x, cotangent)


exact = nqf.default_registry().get("quadratic-network", n_in=3, width=2)
layer = Written(n_in=3, width=2)
at = residuals.Setting(layer, layer.sample(3, torch.Generator().manual_seed(0)))
W, fresh = torch.randn(2, at.p, at.d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
rays = torch.stack([W, fresh])
seen = residuals.measure(at)
mlp = nqf.default_registry().get("two-layer-mlp", n_in=2, n_out=2, width=2)
cut = residuals.Setting(mlp, mlp.sample(3, torch.Generator().manual_seed(0)))
parts = torch.randn(2, cut.p, cut.d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

small = {
    "compare": residuals.compare(at.layer.structure(at.x).dense(torch.float64), seen.expansion.diagonal, at.spread).residual,
    "determinism": residuals.determinism(at, W, fresh).residual,
    "finiteness": residuals.finiteness(at, W)[0],
    "gaps_along": residuals.gaps_along(at, residuals.measure_along(at), ["structure"])["structure"].residual,
    "gradient": residuals.gradient(at, W, rays).residual,
    "linearised": max(residuals.linearised(at, W)),
    "measure": seen.disagreement,
    "measure_along": residuals.measure_along(at).disagreement,
    "minimality": 1e-12 / residuals.minimality(cut, *parts).change,
    "one_by_one": residuals.one_by_one(at, ["structure"], W)[0],
    "permutation_symmetry": residuals.permutation_symmetry(at, W, [[1, 0]])[0],
    "pullback": residuals.pullback(at, W).residual,
    "quadratic_polynomial": residuals.quadratic_polynomial(at, W, fresh),
    "remainder_slope": residuals.remainder_slope(at, seen.evaluate, rays).largest,
    "sign_symmetry": residuals.sign_symmetry(at, W)[0],
    "smoothness": residuals.smoothness(at, at.zero, W, fresh).worst[0],
    "zero_gradient": residuals.zero_gradient(at, W, 0, torch.eye(at.p, dtype=torch.float64)).autodiff,
}
assert not REFUSED & {name.partition(".")[0] for name in sys.modules}
assert {*small, "Setting", "Undecided"} == {*residuals.__all__}, "use every residual here"
wrong = {name: value for name, value in small.items() if not 0 <= value < 1e-7}
assert not wrong, wrong
