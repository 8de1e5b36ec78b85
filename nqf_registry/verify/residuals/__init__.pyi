"""What type checkers and editors see: the names that ``__init__.py`` imports at first use. A test holds the two together."""

from nqf_registry.verify.matrix_free import measure_along as measure_along
from nqf_registry.verify.measured import measure as measure
from nqf_registry.verify.residuals.determinism import determinism as determinism
from nqf_registry.verify.residuals.finiteness import finiteness as finiteness
from nqf_registry.verify.residuals.gradient import gradient as gradient
from nqf_registry.verify.residuals.linearised import linearised as linearised
from nqf_registry.verify.residuals.minimality import minimality as minimality
from nqf_registry.verify.residuals.one_by_one import one_by_one as one_by_one
from nqf_registry.verify.residuals.permutation_symmetry import permutation_symmetry as permutation_symmetry
from nqf_registry.verify.residuals.pullback import pullback as pullback
from nqf_registry.verify.residuals.remainder_order import quadratic_polynomial as quadratic_polynomial
from nqf_registry.verify.residuals.remainder_order import remainder_slope as remainder_slope
from nqf_registry.verify.residuals.sign_symmetry import sign_symmetry as sign_symmetry
from nqf_registry.verify.residuals.smoothness import smoothness as smoothness
from nqf_registry.verify.residuals.structure_along_rays import gaps_along as gaps_along
from nqf_registry.verify.residuals.structure_matrix import compare as compare
from nqf_registry.verify.residuals.zero_gradient_at_zero import zero_gradient as zero_gradient
from nqf_registry.verify.setting import Setting as Setting
from nqf_registry.verify.setting import Undecided as Undecided
