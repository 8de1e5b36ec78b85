"""Factors of axes: split where a view cuts, united where an operation says that two axes run together."""

from nqf_registry.modules.axes import Axes


def sizes(axes, dim):
    return [axes.size((atom,)) for atom in axes.leaves(dim)]


def test_a_view_splits_and_joins_again():
    axes = Axes()
    packed = axes.new(24)
    parts = axes.reshaped([packed], [3, 2, 4], "uneven")
    assert [sizes(axes, part) for part in parts] == [[3], [2], [4]] and sizes(axes, packed) == [3, 2, 4]
    (joined,) = axes.reshaped(parts[1:], [8], "uneven")
    assert axes.leaves(joined) == axes.leaves(packed)[1:]


def test_united_axes_share_what_is_known_of_either():
    axes = Axes()
    one, other = axes.new(12), axes.new(12)
    axes.reshaped([one], [3, 4], "uneven")
    axes.unite(other, one)
    assert axes.leaves(other) == axes.leaves(one) and sizes(axes, other) == [3, 4]
    axes.fix(axes.leaves(one)[:1], "picked")
    assert [axes.reason(atom) for atom in axes.leaves(other)] == ["picked", ""]


def test_factors_that_do_not_match_are_fixed():
    axes = Axes()
    one, other = axes.new(12), axes.new(12)
    axes.reshaped([one], [4, 3], "uneven")
    axes.reshaped([other], [3, 4], "uneven")
    axes.unite(one, other, "no match")
    assert all(axes.reason(atom) == "no match" for atom in (*axes.leaves(one), *axes.leaves(other)))


def test_a_view_that_cuts_unevenly_fixes_everything():
    axes = Axes()
    a, b = axes.new(6), axes.new(10)
    axes.reshaped([a, b], [4, 15], "uneven")
    assert all(axes.reason(atom) == "uneven" for dim in (a, b) for atom in axes.leaves(dim))


def test_an_axis_of_one_has_no_factor_and_matches_any():
    axes = Axes()
    wide = axes.new(5)
    assert axes.new(1) == () and axes.unite((), wide) == wide and axes.unite(wide, ()) == wide
