"""What type checkers and editors see: the names that ``__init__.py`` imports at first use. A test holds the two together."""

from nqf_registry.verify.report import Check as Check
from nqf_registry.verify.report import Report as Report
from nqf_registry.verify.suite import SUITE as SUITE
from nqf_registry.verify.suite import verify as verify
from nqf_registry.verify.verdict import verdict as verdict
