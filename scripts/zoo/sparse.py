"""Models that gather rows: recommenders and graph networks, after their published definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from gambrel.workload import Symbol
from zoo.entry import Entry, Point, Subject, batch, empty, lean, module_subject, tokens

#: Rows of each table of Criteo's terabyte, at most 40 million, as MLPerf's DLRM uses them
#: (arXiv 1906.00091 and mlcommons/training, recommendation_v2).
TABLES = {
    "dlrm": (
        39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10,
        2208, 11938, 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36,
    ),
    "dlrm-dcnv2": (
        40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10,
        2209, 11938, 155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36,
    ),
}  # fmt: skip
#: Rows that a sample of DLRM-DCNv2 looks up in each table.
BAGS = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)
#: Width of an embedding.
WIDTH = 128


def entries() -> Iterator[Entry]:
    """DLRM by samples; graph networks by nodes and edges, Cora's by default."""
    yield _recommender("dlrm", "DLRM of MLPerf v0.7, 26 tables, one row each", ())
    yield _recommender("dlrm-dcnv2", "DLRM-DCNv2 of MLPerf v3.0, 214 rows", ("dlrm-v2", "dcnv2"))
    yield _graph(
        "gcn", "GCN, 1,433-16-7, of nodes and edges (self-loops added)", _gcn, "1609.02907"
    )
    yield _graph(
        "gat", "GAT, 1,433-8x8-7, of nodes and edges (self-loops added)", _gat, "1710.10903"
    )
    yield _graph("graphsage", "GraphSAGE, mean, 1,433-256-7", _sage, "1706.02216")
    yield _graph(
        "gin", "GIN, five layers of 64, one graph of 1,433 features, 7 classes", _gin, "1810.00826"
    )


def _recommender(name: str, about: str, aliases: tuple[str, ...]) -> Entry:
    cross = name != "dlrm"

    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        size = point["batch"]
        bags = BAGS if cross else (1,) * 26
        return (empty(size, 13), *(tokens(size, bag) for bag in bags)), {}

    return Entry(
        name=name,
        family="recommendation",
        about=about,
        build=partial(_subject, partial(_dlrm, name, cross=cross), inputs),
        symbols=(batch("samples at once"),),
        values={"batch": (1, 3)},
        held_out=({"batch": 2}, {"batch": 7}),
        aliases=aliases,
        source=f"torch {name}",
    )


def _graph(name: str, about: str, make: Callable[[], Any], paper: str) -> Entry:
    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (empty(point["nodes"], 1433), tokens(2, point["edges"])), {}

    return Entry(
        name=name,
        family="graphs",
        about=about,
        build=partial(_subject, make, inputs),
        symbols=(
            Symbol(name="nodes", default=2708, minimum=10, about="nodes of the graph"),
            Symbol(name="edges", default=10556, minimum=10, about="directed edges"),
        ),
        values={"nodes": (10, 13), "edges": (10, 21)},
        held_out=({"nodes": 100, "edges": 1000}, {"nodes": 57, "edges": 33}),
        aliases=(f"{name}-cora",),
        source=f"torch {name.upper()}, arXiv {paper}",
        assumptions=("Edges are gathered and scattered; rows that a cache keeps are not known.",),
    )


def _subject(
    make: Callable[[], Any], inputs: Callable[[Any, Point], tuple[tuple[Any, ...], dict[str, Any]]]
) -> Subject:
    return module_subject(lean(make), inputs)


def _layers(*widths: int, last: bool) -> Any:
    """Linear layers with ReLU between them, and behind the last one if asked for."""
    from torch import nn

    parts = [m for a, b in pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*(parts if last else parts[:-1]))


def _dlrm(name: str, *, cross: bool) -> Any:
    """Dense features and 26 embeddings, their dot products or three low-rank crosses, an MLP."""
    import torch
    from torch import nn

    class Cross(nn.Module):
        def __init__(self, width: int, rank: int) -> None:
            super().__init__()
            self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width)

        def forward(self, first: Any, x: Any) -> Any:
            return first * self.up(self.down(x)) + x

    class Dlrm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList(nn.EmbeddingBag(n, WIDTH, mode="sum") for n in TABLES[name])
            self.bottom = _layers(13, 512, 256, WIDTH, last=True)
            joined = 27 * WIDTH if cross else WIDTH + 27 * 26 // 2
            self.crosses = nn.ModuleList(Cross(joined, 512) for _ in range(3 * cross))
            self.top = _layers(joined, 1024, 1024, 512, 256, 1, last=False)
            self.register_buffer("pairs", torch.tril_indices(27, 27, -1), persistent=False)

        def forward(self, dense: Any, *rows: Any) -> Any:
            x = self.bottom(dense)
            every = [x, *(t(r) for t, r in zip(self.tables, rows, strict=True))]
            if cross:
                first = joined = torch.cat(every, 1)
                for layer in self.crosses:
                    joined = layer(first, joined)
            else:
                stacked = torch.stack(every, 1)
                products = torch.bmm(stacked, stacked.transpose(1, 2))
                joined = torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], 1)
            return torch.sigmoid(self.top(joined))

    return Dlrm()


def _gcn() -> Any:
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self, width: int, out: int) -> None:
            super().__init__()
            self.linear = nn.Linear(width, out, bias=False)
            self.bias = nn.Parameter(torch.empty(out))

        def forward(self, x: Any, source: Any, target: Any, weight: Any) -> Any:
            messages = self.linear(x).index_select(0, source) * weight.unsqueeze(1)
            return _summed(messages, target, x.shape[0]) + self.bias

    class Gcn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Layer(1433, 16), Layer(16, 7)

        def forward(self, x: Any, edges: Any) -> Any:
            source, target = _with_loops(edges, x.shape[0])
            ones = x.new_ones(target.shape[0])
            scale = _summed(ones, target, x.shape[0]).pow(-0.5)
            weight = scale.index_select(0, source) * scale.index_select(0, target)
            x = torch.relu(self.first(x, source, target, weight))
            return self.second(x, source, target, weight).log_softmax(1)

    return Gcn()


def _gat() -> Any:
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self, width: int, heads: int, out: int) -> None:
            super().__init__()
            self.heads, self.out = heads, out
            self.linear = nn.Linear(width, heads * out, bias=False)
            self.source = nn.Parameter(torch.empty(1, heads, out))
            self.target = nn.Parameter(torch.empty(1, heads, out))
            self.bias = nn.Parameter(torch.empty(heads * out))

        def forward(self, x: Any, source: Any, target: Any) -> Any:
            nodes = x.shape[0]
            x = self.linear(x).view(nodes, self.heads, self.out)
            left, right = (x * self.source).sum(-1), (x * self.target).sum(-1)
            scores = left.index_select(0, source) + right.index_select(0, target)
            scores = torch.nn.functional.leaky_relu(scores, 0.2)
            index = target.unsqueeze(1).expand_as(scores)
            top = scores.new_zeros(nodes, self.heads)
            top = top.scatter_reduce(0, index, scores, "amax", include_self=False)
            weights = (scores - top.index_select(0, target)).exp()
            total = _summed(weights, target, nodes)
            weights = weights / total.index_select(0, target)
            messages = x.index_select(0, source) * weights.unsqueeze(-1)
            return _summed(messages, target, nodes).flatten(1) + self.bias

    class Gat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Layer(1433, 8, 8), Layer(64, 1, 7)

        def forward(self, x: Any, edges: Any) -> Any:
            source, target = _with_loops(edges, x.shape[0])
            x = torch.nn.functional.elu(self.first(x, source, target))
            return self.second(x, source, target).log_softmax(1)

    return Gat()


def _sage() -> Any:
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self, width: int, out: int) -> None:
            super().__init__()
            self.neighbours, self.own = nn.Linear(width, out), nn.Linear(width, out, bias=False)

        def forward(self, x: Any, source: Any, target: Any, count: Any) -> Any:
            mean = _summed(x.index_select(0, source), target, x.shape[0]) / count.unsqueeze(1)
            return self.neighbours(mean) + self.own(x)

    class Sage(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Layer(1433, 256), Layer(256, 7)

        def forward(self, x: Any, edges: Any) -> Any:
            source, target = edges[0], edges[1]
            count = _summed(x.new_ones(target.shape[0]), target, x.shape[0]).clamp(min=1)
            x = torch.relu(self.first(x, source, target, count))
            return self.second(x, source, target, count).log_softmax(1)

    return Sage()


def _gin() -> Any:
    """Each layer's rows are summed and scored: the paper's readout of a whole graph."""
    import torch
    from torch import nn

    def perceptron(width: int) -> Any:
        first = (nn.Linear(width, 64), nn.BatchNorm1d(64), nn.ReLU())
        return nn.Sequential(*first, nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())

    class Gin(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(perceptron(width) for width in (1433, 64, 64, 64, 64))
            self.scores = nn.ModuleList(nn.Linear(width, 7) for width in (1433, *[64] * 5))
            self.own = nn.ParameterList(torch.empty(()) for _ in range(5))

        def forward(self, x: Any, edges: Any) -> Any:
            source, target = edges[0], edges[1]
            scores = self.scores[0](x.sum(0))
            for layer, score, own in zip(self.layers, self.scores[1:], self.own, strict=True):
                around = _summed(x.index_select(0, source), target, x.shape[0])
                x = layer(around + (1 + own) * x)
                scores = scores + score(x.sum(0))
            return scores.log_softmax(0)

    return Gin()


def _summed(messages: Any, target: Any, nodes: int) -> Any:
    return messages.new_zeros(nodes, *messages.shape[1:]).index_add(0, target, messages)


def _with_loops(edges: Any, nodes: int) -> tuple[Any, Any]:
    import torch

    loops = torch.arange(nodes, device=edges.device)
    return torch.cat([edges[0], loops]), torch.cat([edges[1], loops])
