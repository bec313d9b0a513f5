"""Groups of a graph: joined wherever no third group lies between, and always in a valid order."""

from hypothesis import given
from hypothesis import strategies as st

from gambrel.analysis.fusion.merge import Groups


def chain(*edges, nodes):
    found = Groups()
    for n in range(nodes):
        found.add(n, [a for a, b in edges if b == n])
    return found


def test_neighbours_join():
    found = chain((0, 1), nodes=2)
    assert found.try_join(0, 1) == 0
    assert found.in_order() == [0]
    assert sorted(found.members(0)) == [0, 1]
    assert found.find(1) == 0


def test_ends_of_a_chain_do_not_join():
    found = chain((0, 1), (1, 2), nodes=3)
    assert found.try_join(0, 2) is None
    assert found.in_order() == [0, 1, 2]


def test_a_group_moves_before_the_one_that_comes_to_need_it():
    """0 and 2 are joined; 1, which 2 needs, has to run first."""
    found = chain((1, 2), nodes=3)
    group = found.try_join(0, 2)
    assert found.in_order() == [1, group]


def test_paths_through_groups_count():
    """1 and 2 are one group, so 0 -> 1 and 2 -> 3 make a path from 0 to 3."""
    found = chain((0, 1), (2, 3), nodes=4)
    found.try_join(1, 2)
    assert found.try_join(0, 3) is None


@st.composite
def graphs(draw):
    nodes = draw(st.integers(2, 12))
    edges = draw(
        st.sets(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=20)
    )
    pairs = draw(st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))))
    return nodes, {(a, b) for a, b in edges if a < b}, pairs


@given(graphs())
def test_joins_exactly_what_leaves_no_cycle(graph):
    """Against a search of the whole quotient graph after each join."""
    nodes, edges, pairs = graph
    found = chain(*edges, nodes=nodes)
    home = {n: {n} for n in range(nodes)}
    for a, b in pairs:
        left, right = found.find(a), found.find(b)
        if left == right:
            continue
        merged = home[a] | home[b]
        trial = {n: merged if n in merged else home[n] for n in range(nodes)}
        possible = not _cyclic(trial, edges)
        assert (found.try_join(left, right) is not None) == possible
        if possible:
            home = trial
        _check_order(found, edges)


def test_many_moves_to_one_place_keep_the_order():
    found = Groups()
    found.add(0, [])
    for n in range(1, 200):
        found.add(2 * n - 1, [])
        found.add(2 * n, [2 * n - 1])
        assert found.try_join(0, 2 * n) == 0
    assert found.in_order()[-1] == 0
    assert len(found.in_order()) == 200


def _check_order(found, edges):
    place = {group: i for i, group in enumerate(found.in_order())}
    for a, b in edges:
        left, right = found.find(a), found.find(b)
        assert left == right or place[left] < place[right]


def _cyclic(home, edges):
    names = {n: min(group) for n, group in home.items()}
    after = {}
    for a, b in edges:
        if names[a] != names[b]:
            after.setdefault(names[a], set()).add(names[b])
    state = {}

    def visit(node):
        if state.get(node) == "open":
            return True
        if state.get(node) == "done":
            return False
        state[node] = "open"
        found = any(visit(n) for n in after.get(node, ()))
        state[node] = "done"
        return found

    return any(visit(n) for n in set(names.values()))
