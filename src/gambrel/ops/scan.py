"""State-space scans: every step of the recurrence counted, whatever the schedule."""

from __future__ import annotations

from typing import Final

from gambrel.ops.base import Cost, OpView, Size, ceil_div, formula, work

#: The gated delta rule over a sequence.
DELTA_RULE: Final = "delta_scan"


@formula("selective_scan")
def selective_scan(op: OpView) -> Cost:
    """Mamba-1, per token, channel and state value: 6 FLOP of recurrence, 2 of read-out.

    h ← exp(Δ·A)·h + (Δ·B)·x, y = C·h. Five products and additions (Δ·A, Δ·B, times x, times h,
    their sum) and the exponential, which published counts take as the sixth FLOP (so 24 layers,
    128 tokens, 1,536 channels, 16 states: 0.453e9); it is also an evaluation on the special
    functions' unit. The read-out contracts the state with C: a multiply-add, matrix work as in
    every other contraction. The state stays on chip: traffic is the inputs and outputs.

    Around it, per token and channel: ``skip`` (+ D·x) 2; ``gate`` (· silu(z)) 4 and one evaluation;
    ``softplus`` of Δ, its bias added first, 5 and 2.

    Sizes: batch, seq, channels, state. Attrs: skip, gate, softplus.
    Source: Gu and Dao, "Mamba" (2023), algorithm 2.
    """
    tokens = op.size("batch") * op.size("seq") * op.size("channels")
    states = tokens * op.size("state")
    skip, gate, softplus = (bool(op.attrs.get(name)) for name in ("skip", "gate", "softplus"))
    around = (2 * skip + 4 * gate + 5 * softplus) * tokens
    evaluations = (gate + 2 * softplus) * tokens
    return Cost(
        work=work(
            op.operand_dtype(1),
            matrix=2 * states,
            vector=6 * states + around,
            special=states + evaluations,
        )
    )


@formula("selective_scan_backward")
def selective_scan_backward(op: OpView) -> Cost:
    """Per token, channel and state value: 17 FLOP of recurrence, 4 of the read-out.

    States are formed again, not stored: 6, and the exponential. The read-out y = C·h is bilinear:
    dC += dy·h and dh += dy·C, matrix work as in the forward pass. The recurrence: dh += ā'·dh' (one
    product more, ā' and dh' of the next token); dā = dh·h' (1, h' of the token before);
    d(Δ·A) = dā·ā (1); dA += d(Δ·A)·Δ, dΔ += d(Δ·A)·A, dB += dh·(Δ·x), d(Δ·x) += dh·B (2 each):
    11. Per token and channel: Δ·x, dx = d(Δ·x)·Δ, dΔ += d(Δ·x)·x: 4.

    ``skip``: dx += D·dy, dD += dy·x: 4. ``gate``, s = sigmoid(z) (3, one evaluation): dy = g·z·s
    (2) and dz = g·y·s·(1 + z·(1 - s)) (6): 11.
    ``softplus``: formed again 5 and 2 evaluations, its slope a sigmoid (3, 1) times dΔ (1), and an
    addition to the gradient of the bias: 10 and 3.

    Sizes and attrs: as selective_scan.
    """
    tokens = op.size("batch") * op.size("seq") * op.size("channels")
    states = tokens * op.size("state")
    skip, gate, softplus = (bool(op.attrs.get(name)) for name in ("skip", "gate", "softplus"))
    vector = 17 * states + (4 + 4 * skip + 11 * gate + 10 * softplus) * tokens
    special = states + (gate + 3 * softplus) * tokens
    return Cost(work=work(op.operand_dtype(1), matrix=4 * states, vector=vector, special=special))


@formula("ssd_scan")
def ssd_scan(op: OpView) -> Cost:
    """Mamba-2 in chunks: four products, of which two run over the pairs within a chunk.

    Matrix work: scores C·Bᵀ, per group, 2·state a pair; scores times x, per head, 2·head_dim a
    pair; the state of each chunk, Bᵀ·x, and the output of the state before it, C·h, per head and
    token 2·state·head_dim each. A token pairs with itself and the earlier ones of its chunk, as in
    causal attention and under the same convention (``full`` counts chunk² pairs).

    Vector work per head: Δ·A (1 a token) and its running sum (1 a token but the first of a chunk);
    Δ·x (head_dim a token); decay within a chunk, exp(a - a') (1 and an evaluation a pair) times the
    score (1); decay to the end of the chunk (1 and an evaluation a token) times x (head_dim); decay
    from its start (an evaluation a token) times the output (head_dim), added to the other
    (head_dim); states from chunk to chunk, decay·h + new (2·state·head_dim a chunk, and an
    evaluation). ``skip`` (+ D·x): 2·head_dim a token.

    Sizes: batch, seq, heads, head_dim, state, groups (1), chunk. Attrs: skip.
    Source: Dao and Gu, "Transformers are SSMs" (2024), section 6.
    """
    matrix = _ssd_products(op)
    vector, special = _ssd_pointwise(op)
    return Cost(work=work(op.operand_dtype(1), matrix=sum(matrix), vector=vector, special=special))


@formula("ssd_scan_backward")
def ssd_scan_backward(op: OpView) -> Cost:
    """Twice the forward matmuls, and scores and chunk states once more.

    Each of the four products has two factors, so two gradients of the same size; scores and states
    are formed again instead of stored. On the vector engine the forward steps run again, and each
    of their products has two gradients too: taken as three times the forward count; exponentials
    are their own gradients and run once.

    Sizes and attrs: as ssd_scan.
    """
    scores, values, states, outputs = _ssd_products(op)
    vector, special = _ssd_pointwise(op)
    matrix = 2 * (scores + values + states + outputs) + scores + states
    return Cost(work=work(op.operand_dtype(1), matrix=matrix, vector=3 * vector, special=special))


@formula(DELTA_RULE)
def delta_scan(op: OpView) -> Cost:
    """Gated delta rule, per token and head: 6·key_dim·value_dim of products, one decay a value.

    S ← α·S; u = β·(v - Sᵀk); S ← S + k·uᵀ; o = Sᵀq. Three contractions with the state (what it
    holds for the key, the update, the read-out) are multiply-adds; the decay is a product a value
    of state. Around: v minus what is held and times β, 2·value_dim; α = exp(-A·softplus(a + b)) and
    β = sigmoid: 4 and 4 evaluations (without ``rates``, where log α and β are given, only the
    exponential); q and k normalized to length 1: 6·key_dim, 2 evaluations.
    Without ``correct`` (a plain decaying state) the first contraction is left out. A schedule in
    chunks does more of the same products to run them on matrices; that is not counted.

    Sizes: batch, seq, heads, key_dim, value_dim. Attrs: correct, rates.
    Source: Yang et al., "Gated Delta Networks" (2024), equation 10.
    """
    matrix, vector, special = _delta_work(op)
    return Cost(work=work(op.operand_dtype(1), matrix=matrix, vector=vector, special=special))


@formula("delta_scan_backward")
def delta_scan_backward(op: OpView) -> Cost:
    """Twice the forward matmuls, and those that make the state once more.

    Each contraction has two factors, so two gradients of the same size; states are formed again
    instead of stored, which takes all of the forward but the read-out (2·key_dim·value_dim). On the
    vector engine the forward steps run again, and each of their products has two gradients: three
    times the forward count; exponentials are their own gradients and run once.

    Sizes and attrs: as delta_scan.
    """
    matrix, vector, special = _delta_work(op)
    rows = op.size("batch") * op.size("seq") * op.size("heads")
    again = matrix - 2 * rows * op.size("key_dim") * op.size("value_dim")
    return Cost(
        work=work(
            op.operand_dtype(1), matrix=2 * matrix + again, vector=3 * vector, special=special
        )
    )


@formula("wkv7_scan")
def wkv7_scan(op: OpView) -> Cost:
    """RWKV-7, per token and head: 8·key_dim·value_dim of products, one decay a value of state.

    S ← S·diag(exp(-exp w)) + (S·a)·bᵀ + v·kᵀ; o = S·r. Four contractions with the state (what it
    holds for the removed key a, its replacement b, the new key, the read-out) are multiply-adds;
    the decay is a product a value of state and two exponentials a key channel.

    Sizes: batch, seq, heads, key_dim, value_dim.
    Source: Peng et al., "RWKV-7 Goose" (2025), equation 17 and algorithm 1.
    """
    rows = op.size("batch") * op.size("seq") * op.size("heads")
    states = rows * op.size("key_dim") * op.size("value_dim")
    special = 2 * rows * op.size("key_dim")
    return Cost(work=work(op.operand_dtype(1), matrix=8 * states, vector=states, special=special))


def _delta_work(op: OpView) -> tuple[Size, Size, Size]:
    """FLOP of products and on the vector engine, and evaluations, as derived in `delta_scan`."""
    rows = op.size("batch") * op.size("seq") * op.size("heads")
    dk, dv = op.size("key_dim"), op.size("value_dim")
    correct = bool(op.attrs.get("correct", True))
    rates = bool(op.attrs.get("rates", True))
    vector = rows * (dk * dv + correct * (2 * dv + 6 * dk) + 4 * rates)
    special = rows * (1 + 3 * rates + 2 * correct)
    return (6 if correct else 4) * rows * dk * dv, vector, special


def _ssd_products(op: OpView) -> tuple[Size, Size, Size, Size]:
    """FLOP of scores, scores times x, chunk states, outputs of the states."""
    batch, heads, n, p = (op.size(s) for s in ("batch", "heads", "state", "head_dim"))
    pairs = batch * _chunk_pairs(op)
    tokens = batch * op.size("seq") * heads
    scores = 2 * pairs * op.size("groups", 1) * n
    return scores, 2 * pairs * heads * p, 2 * tokens * n * p, 2 * tokens * n * p


def _ssd_pointwise(op: OpView) -> tuple[Size, Size]:
    """Vector FLOP and function evaluations, as derived in `ssd_scan`."""
    rows = op.size("batch") * op.size("heads")
    seq, n, p = op.size("seq"), op.size("state"), op.size("head_dim")
    chunks = ceil_div(seq, op.size("chunk"))
    pairs = _chunk_pairs(op)
    skip = 2 * p if op.attrs.get("skip") else 0
    token = 3 + 4 * p + skip
    vector = rows * (2 * pairs + token * seq - chunks + 2 * n * p * chunks)
    return vector, rows * (pairs + 2 * seq + chunks)


def _chunk_pairs(op: OpView) -> Size:
    """Pairs of tokens of one sequence within its chunks; the last chunk may be shorter."""
    seq, chunk = op.size("seq"), op.size("chunk")
    whole = seq // chunk
    rest = seq - whole * chunk
    if op.conventions.causal == "full":
        return whole * chunk * chunk + rest * rest
    return (whole * chunk * (chunk + 1) + rest * (rest + 1)) // 2
