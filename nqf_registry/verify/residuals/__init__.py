"""Residuals: pure functions of a setting and weights that return numbers. No hypothesis, no pytest, no verdicts."""
