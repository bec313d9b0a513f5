"""RWKV-7 after its paper (arXiv 2503.14456), in bf16, with its recurrence as one op."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

VOCABULARY: Final = 65_536
HEAD: Final = 64
#: Ranks of decay, learning rate, value mix and gate.
Ranks = tuple[int, int, int, int]
#: Width, layers, ranks: the paper's table of models.
SIZES: Final[dict[str, tuple[int, int, Ranks]]] = {
    "rwkv7-0.4b": (1024, 24, (64, 64, 32, 128)),
    "rwkv7-1.5b": (2048, 24, (96, 96, 64, 256)),
    "rwkv7-2.9b": (2560, 32, (96, 96, 64, 320)),
}


def model(width: int, layers: int, ranks: Ranks) -> Any:
    """The language model; logits of the last token."""
    from torch import nn

    class Rwkv7(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emb, self.ln0 = nn.Embedding(VOCABULARY, width), nn.LayerNorm(width)
            self.blocks = nn.ModuleList(_block(width, ranks, first=i == 0) for i in range(layers))
            self.ln_out = nn.LayerNorm(width)
            self.head = nn.Linear(width, VOCABULARY, bias=False)

        def forward(self, ids: Any) -> Any:
            x, first_value = self.ln0(self.emb(ids)), None
            for block in self.blocks:
                x, first_value = block(x, first_value)
            return self.head(self.ln_out(x[:, -1:]))

    return Rwkv7().bfloat16()


@lru_cache(maxsize=1)
def _scan() -> Any:
    """The recurrence as an op that has no implementation, only a shape."""
    import torch

    torch.library.define(
        "wkv7::forward",
        "(Tensor r, Tensor w, Tensor k, Tensor v, Tensor a, Tensor b) -> Tensor",
    )

    @torch.library.impl("wkv7::forward", "Meta")
    def _(*tensors: Any) -> Any:
        return torch.empty_like(tensors[3])

    return torch.ops.wkv7.forward


def _vector(width: int) -> Any:
    import torch

    return torch.nn.Parameter(torch.empty(1, 1, width))


def _shifted(x: Any) -> Any:
    """The token before, less this one."""
    from torch.nn import functional as f

    return f.pad(x, (0, 0, 1, -1)) - x


def _low_rank(width: int, rank: int, between: Any = None, *, bias: bool = True) -> Any:
    from torch import nn

    inner = (between,) if between else ()
    down, up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias)
    return nn.Sequential(down, *inner, up)


def _time_mix(width: int, ranks: Ranks, *, first: bool) -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as f

    scan, heads = _scan(), width // HEAD

    class TimeMix(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mixes = nn.ParameterList(_vector(width) for _ in range(6))
            self.decay = _low_rank(width, ranks[0], nn.Tanh())
            self.rate = _low_rank(width, ranks[1])
            self.blend = None if first else _low_rank(width, ranks[2])
            self.gate = _low_rank(width, ranks[3], nn.Sigmoid(), bias=False)
            self.removed, self.kept = _vector(width), _vector(width)
            self.bonus = nn.Parameter(torch.empty(heads, HEAD))
            linear = (nn.Linear(width, width, bias=False) for _ in range(4))
            self.receptance, self.key, self.value, self.output = linear
            self.norm = nn.GroupNorm(heads, width, eps=64e-5)

        def forward(self, x: Any, first_value: Any) -> tuple[Any, Any]:
            size, seq, _ = x.shape
            change = _shifted(x)
            xr, xw, xk, xv, xa, xg = (x + change * m for m in self.mixes)
            r, k, v = self.receptance(xr), self.key(xk), self.value(xv)
            w = -f.softplus(-self.decay(xw)) - 0.5
            if self.blend is None:
                first_value = v
            else:
                v = v + (first_value - v) * torch.sigmoid(self.blend(xv))
            a, g = torch.sigmoid(self.rate(xa)), self.gate(xg)
            removed = f.normalize((k * self.removed).view(size, seq, heads, HEAD), dim=-1)
            k = k * (1 + (a - 1) * self.kept)
            r, w, k, v, a = (t.view(size, seq, heads, HEAD) for t in (r, w, k, v, a))
            out = scan(r, w, k, v, -removed, removed * a).view(size * seq, width)
            out = self.norm(out).view(size, seq, width)
            out = out + ((r * k * self.bonus).sum(-1, keepdim=True) * v).view(size, seq, width)
            return self.output(out * g), first_value

    return TimeMix()


def _channel_mix(width: int) -> Any:
    import torch
    from torch import nn

    class ChannelMix(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = _vector(width)
            self.key = nn.Linear(width, 4 * width, bias=False)
            self.value = nn.Linear(4 * width, width, bias=False)

        def forward(self, x: Any) -> Any:
            return self.value(torch.relu(self.key(x + _shifted(x) * self.mix)) ** 2)

    return ChannelMix()


def _block(width: int, ranks: Ranks, *, first: bool) -> Any:
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.att, self.ffn = _time_mix(width, ranks, first=first), _channel_mix(width)

        def forward(self, x: Any, first_value: Any) -> tuple[Any, Any]:
            mixed, first_value = self.att(self.ln1(x), first_value)
            x = x + mixed
            return x + self.ffn(self.ln2(x)), first_value

    return Block()
