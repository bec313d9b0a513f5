"""Dense linear algebra, distances and Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from gambrel.capture.aten.call import Call, Described, TensorArg
from gambrel.capture.aten.registry import by_op, rule
from gambrel.workload import Sizes

#: Neutral function → ATen names whose first argument is the (batch of) matrices.
FUNCTIONS: Final[dict[str, str]] = {
    "cholesky": "linalg_cholesky_ex linalg_cholesky cholesky",
    "inverse": "linalg_inv_ex linalg_inv inverse",
    "qr": "linalg_qr qr",
    # geqrf stops at the Householder vectors: as many operations as forming Q from them.
    "householder_product": "geqrf linalg_householder_product orgqr",
    "svdvals": "linalg_svdvals",
    "svd": "linalg_svd",
    "eigh": "linalg_eigh",
    "eigvalsh": "linalg_eigvalsh",
    "eig": "linalg_eig",
    "eigvals": "linalg_eigvals _linalg_eigvals",
    "lu": "linalg_lu_factor_ex linalg_lu_factor linalg_lu _lu_with_info",
    "det": "_linalg_det linalg_det det _linalg_slogdet linalg_slogdet slogdet logdet",
    "ldl": "linalg_ldl_factor_ex linalg_ldl_factor",
}
_FUNCTION_OF: Final = by_op(FUNCTIONS)


@rule(*_FUNCTION_OF)
def factorization(call: Call) -> Described:
    """A, ...: sizes of the matrices and how many there are."""
    return _linalg(call, _FUNCTION_OF[call.op], call.tensor(0), 0)


@rule("aten._linalg_svd", "aten._linalg_eigh")
def with_or_without_vectors(call: Call) -> Described:
    """A, ..., then whether vectors are wanted: without them only values are computed."""
    if call.op == "aten._linalg_svd":
        function = "svd" if call.arg(2, "compute_uv", True) else "svdvals"
    else:
        function = "eigh" if call.arg(2, "compute_v", True) else "eigvalsh"
    return _linalg(call, function, call.tensor(0), 0)


@rule("aten._linalg_solve_ex", "aten.linalg_solve_ex", "aten.linalg_solve", "aten.linalg_lstsq")
def solve(call: Call) -> Described:
    """A, B: one factorization and a substitution a right-hand side."""
    least_squares = call.name == "linalg_lstsq"
    a, b = call.tensor(0), call.tensor(1, "b" if least_squares else "B")
    vector = len(b.shape) == len(a.shape) - 1
    function = "lstsq" if least_squares else "solve"
    return _linalg(call, function, a, 1 if vector else b.shape[-1])


@rule("aten.linalg_solve_triangular")
def solve_triangular(call: Call) -> Described:
    """A, B: substitution only."""
    a, b = call.tensor(0), call.tensor(1, "B")
    return _linalg(
        call, "triangular_solve", a, b.shape[-1] if call.kwargs.get("left", True) else b.shape[-2]
    )


@rule("aten.triangular_solve")
def triangular_solve(call: Call) -> Described:
    """b, A: substitution only."""
    return _linalg(call, "triangular_solve", call.tensor(1, "A"), call.tensor(0).shape[-1])


@rule("aten.cholesky_solve", "aten.linalg_lu_solve", "aten.lu_solve", "aten.linalg_ldl_solve")
def factored_solve(call: Call) -> Described:
    """Right-hand sides through a factorization: two substitutions each."""
    if call.op in ("aten.cholesky_solve", "aten.lu_solve"):
        b, a = call.tensor(0), call.tensor(1)
    else:  # linalg_lu_solve(LU, pivots, B), linalg_ldl_solve(LD, pivots, B)
        a, b = call.tensor(0), call.tensor(2, "B")
    return _linalg(call, "factored_solve", a, b.shape[-1])


@rule("aten._cdist_forward", "aten.cdist", "aten._euclidean_dist")
def cdist(call: Call) -> Described:
    """x1 (..., m, k), x2 (..., n, k), p: all m·n distances."""
    a, b = call.tensor(0, "x1"), call.tensor(1, "x2")
    sizes = _pairs(call.out, a.shape[-2], b.shape[-2], a.shape[-1])
    if call.name == "_euclidean_dist":
        return call.described("cdist", sizes, {"p": 2.0, "matmul": True})
    return call.described("cdist", sizes, {"p": float(call.arg(2, "p", 2.0))})


@rule("aten._cdist_backward")
def cdist_backward(call: Call) -> Described:
    """grad, x1, x2, p, cdist: as many differences as forward, scaled and added."""
    a, b = call.tensor(1, "x1"), call.tensor(2, "x2")
    sizes = _pairs(call.tensor(0, "grad"), a.shape[-2], b.shape[-2], a.shape[-1])
    return call.described("cdist", sizes, {"p": float(call.arg(3, "p", 2.0)), "backward": True})


@rule("aten._pdist_forward", "aten.pdist")
def pdist(call: Call) -> Described:
    """For self (n, k), p: the n(n-1)/2 distances within one set."""
    n, k = call.tensor(0).shape
    sizes: Sizes = {"batch": 1, "m": 1, "n": n * (n - 1) // 2, "k": k}
    return call.described("cdist", sizes, {"p": float(call.arg(1, "p", 2.0))})


@rule("aten._fft_r2c", "aten._fft_c2r", "aten._fft_c2c")
def fft(call: Call) -> Described:
    """self, dim, normalization, ...; a real transform is as long as its real side."""
    real = call.op != "aten._fft_c2c"
    points = call.out if call.op == "aten._fft_c2r" else call.tensor(0)
    return _fft(call, points, call.arg(1, "dim"), real)


@rule("aten.fft_fft", "aten.fft_ifft", "aten.fft_rfft", "aten.fft_irfft", "aten.fft_hfft")
def fft_line(call: Call) -> Described:
    """self, n, dim, norm: transforms along one dimension."""
    dim = call.arg(2, "dim", -1)
    inverse_real = call.name in ("fft_irfft", "fft_hfft")
    full = call.out if inverse_real or call.name in ("fft_fft", "fft_ifft") else call.tensor(0)
    return _fft(call, full, [dim], "rfft" in call.name or "hfft" in call.name)


@rule("aten.fft_fft2", "aten.fft_ifft2", "aten.fft_rfft2", "aten.fft_irfft2")
@rule("aten.fft_fftn", "aten.fft_ifftn", "aten.fft_rfftn", "aten.fft_irfftn")
def fft_many(call: Call) -> Described:
    """self, s, dim, norm: transforms over several dimensions."""
    default = [-2, -1] if call.name.endswith("2") else None
    dims = call.arg(2, "dim", default) or range(len(call.tensor(0).shape))
    full = call.tensor(0) if "_rfft" in call.name else call.out
    return _fft(call, full, list(dims), "rfft" in call.name)


def _linalg(call: Call, function: str, a: TensorArg, rhs: int) -> Described:
    n, m = sorted(a.shape[-2:])  # a wide matrix costs as much as its transpose
    sizes: Sizes = {"n": n, "m": m, "batch": prod(a.shape[:-2]), "rhs": rhs}
    return call.described("linalg", sizes, {"function": function})


def _pairs(distances: TensorArg, m: int, n: int, k: int) -> Sizes:
    return {"batch": prod(distances.shape[:-2]), "m": m, "n": n, "k": k}


def _fft(call: Call, points: TensorArg, dims: Sequence[int], real: bool) -> Described:
    """A transform over several dimensions is one of the product's length: 5 N log2 N adds up."""
    length = prod(points.shape[d] for d in dims)
    sizes: Sizes = {
        "elements": points.numel,
        "length": length,
        "transforms": points.numel // length if length else 0,
    }
    return call.described("fft", sizes, {"real": real})
