"""The verifier: residuals that return numbers, checks that draw examples for them, and the report."""

from nqf_registry.verify.report import Check, Report
from nqf_registry.verify.suite import SUITE, verify
from nqf_registry.verify.verdict import verdict

__all__ = ["SUITE", "Check", "Report", "verdict", "verify"]
