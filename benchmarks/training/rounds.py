"""Times two things against each other in one process: interleaved rounds, medians, and the median of the rounds' ratios."""

import statistics
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds a step of what is measured and of its opponent, and the median ratio of the rounds, opponent : mine."""

    mine: float
    opponent: float
    ratio: float
    rounds: int


def seconds_a_step(step, count):
    """Seconds that one of ``count`` steps takes."""
    started = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - started) / count


def compare(mine, opponent, rounds=9):
    """Median seconds of both, each a function that gives seconds a step; one round beforehand warms up and is dropped."""
    mine(), opponent()
    pairs = [(mine(), opponent()) for _ in range(rounds)]
    ratio = statistics.median(other / own for own, other in pairs)
    return Timing(statistics.median(own for own, _ in pairs), statistics.median(other for _, other in pairs), ratio, rounds)
