"""What the statistics of measurements must compute, by counting every case.

Nothing is approximated: all choices of signs or of samples are tried, and
probabilities are fractions. So it is slow, and for few values only.
"""

import itertools
import statistics
from fractions import Fraction


def mid_ranks(values):
    """The rank of each value, from 1; equal values share the mean of theirs."""
    ranks = []
    for value in values:
        below = sum(other < value for other in values)
        equal = sum(other == value for other in values)
        ranks.append(Fraction(2 * below + equal + 1, 2))
    return ranks


def signed_rank(differences):
    """Wilcoxon's signed-rank test, two-sided; zeros are left out."""
    kept = [value for value in differences if value != 0]
    if not kept:
        return Fraction(1)
    ranks = mid_ranks([abs(value) for value in kept])

    def apart(signs):
        return abs(sum(sign * rank for sign, rank in zip(signs, ranks)))

    found = apart([1 if value > 0 else -1 for value in kept])
    cases = [apart(signs) >= found for signs in itertools.product((1, -1), repeat=len(kept))]
    return Fraction(sum(cases), len(cases))


def mann_whitney(first, second):
    """The test of Mann and Whitney, two-sided: as far or farther from the mean rank sum."""
    ranks = mid_ranks(list(first) + list(second))
    mean = Fraction(sum(ranks) * len(first), len(ranks))
    found = abs(sum(ranks[:len(first)]) - mean)
    cases = [abs(sum(chosen) - mean) >= found for chosen in itertools.combinations(ranks, len(first))]
    return Fraction(sum(cases), len(cases))


def quartiles(values):
    """Definition 7 of Hyndman and Fan, which the standard library calls inclusive."""
    return statistics.quantiles(values, n=4, method="inclusive")


def mad(values):
    """The median of the distances to the median."""
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)


def holm(probabilities):
    """Holm's step-down adjustment."""
    adjusted = [None] * len(probabilities)
    greatest = 0
    order = sorted(range(len(probabilities)), key=probabilities.__getitem__)
    for place, index in enumerate(order):
        greatest = max(greatest, min(1, probabilities[index] * (len(order) - place)))
        adjusted[index] = greatest
    return adjusted
