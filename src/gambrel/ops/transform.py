"""Fourier transforms and dense linear algebra."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gambrel.ops.base import Cost, OpView, Size, formula, log2, rounded, work

_Counter = Callable[[Size, Size, Size], Size]


@formula("fft")
def fft(op: OpView) -> Cost:
    """5·N·log2(N) a complex transform of N points, half of that where one side is real.

    A radix-2 transform has log2(N)/2 butterflies a point, of one complex product (6) and two
    complex sums (4): 5 a point and stage. It is the customary figure, whatever algorithm runs
    (FFTW's benchmark methodology, https://www.fftw.org/speed/method.html). N is the product of the
    transformed dimensions.

    Sizes: length (points), transforms. Attrs: real.
    """
    n = op.size("length")
    flops = 5 * n * log2(n) * op.size("transforms")
    return Cost(work=work(op.dtype, vector=rounded(flops / 2 if op.attrs.get("real") else flops)))


def _lu(n: Size) -> Size:
    """2/3 n³ - 1/2 n² + 5/6 n."""
    return (4 * n**3 - 3 * n**2 + 5 * n) // 6


#: Function → FLOP for one matrix of m rows and n columns (square ones: n), r right-hand sides.
#: LU, Cholesky, triangular and inverse: LAPACK Working Note 41 (Blackford and Dongarra, 1999),
#: appendix C. QR, SVD, eigenvalues: leading terms of Golub and Van Loan, "Matrix Computations".
_LINALG: Final[Mapping[str, _Counter]] = {
    "lu": lambda _m, n, _r: _lu(n),
    "factored_solve": lambda _m, n, r: 2 * r * n**2,  # forward and back substitution
    "solve": lambda _m, n, r: _lu(n) + r * (2 * n**2 - n),
    "det": lambda _m, n, _r: _lu(n) + n - 1,  # the product of the diagonal
    # LU, then 4/3 n³ - n² + 5/3 n from it.
    "inverse": lambda _m, n, _r: _lu(n) + (4 * n**3 - 3 * n**2 + 5 * n) // 3,
    "cholesky": lambda _m, n, _r: (2 * n**3 + 3 * n**2 + n) // 6,
    "ldl": lambda _m, n, _r: n**3 // 3,  # leading term: as Cholesky
    "triangular_solve": lambda _m, n, r: r * n**2,
    # Householder vectors 2mn² - 2/3 n³, and as much to form Q.
    "qr": lambda m, n, _r: (12 * m * n**2 - 4 * n**3) // 3,
    "householder_product": lambda m, n, _r: (6 * m * n**2 - 2 * n**3) // 3,
    # QR without Q, then per right-hand side the vectors applied 4mn - 2n², substitution n².
    "lstsq": lambda m, n, r: (6 * m * n**2 - 2 * n**3) // 3 + r * (4 * m * n - n**2),
    "svd": lambda m, n, _r: 14 * m * n**2 + 8 * n**3,  # with thin U and V
    "svdvals": lambda m, n, _r: (12 * m * n**2 - 4 * n**3) // 3,
    "eigh": lambda _m, n, _r: 9 * n**3,  # with vectors
    "eigvalsh": lambda _m, n, _r: 4 * n**3 // 3,
    "eig": lambda _m, n, _r: 25 * n**3,
    "eigvals": lambda _m, n, _r: 10 * n**3,
}


@formula("linalg")
def linalg(op: OpView) -> Cost | None:
    """Published operation counts of the LAPACK algorithms, per matrix of the batch.

    Blocked factorizations are made of GEMMs, so the work is multiply-accumulate work;
    a complex one is four real ones.

    Sizes: n, m (n; rows, at least n), batch (1), rhs (1). Attrs: function.
    """
    counter = _LINALG.get(str(op.attrs.get("function")))
    if counter is None:
        return None
    n = op.size("n")
    flops = counter(op.size("m", n), n, op.size("rhs", 1)) * op.size("batch", 1)
    real_per_complex = 4 if op.is_complex else 1
    return Cost(work=work(op.dtype, matrix=flops * real_per_complex))
