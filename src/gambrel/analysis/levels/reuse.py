"""What a cache keeps from one op to the next: reuse distances over the storages of a workload.

Every op streams its storages in lockstep: at time t, from 0 to 1, it is at the share t of each of
them. A line at position t that op a touched and op b touches again has, in between, been followed
by (the reuse distance, Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems
Journal 9 (2), 1970)

    D(t) = between + (1 - t) · (what only a touched) + t · (what only b touches)

bytes of other lines, where `between` is what ops between a and b touched, plus what a and b share.
A least-recently-used cache of C bytes still holds the line if D(t) ≤ C. As D is linear in t, the
part of a storage that survives is an interval, found without looking at lines. The sums over last
touches are kept in a Fenwick tree, so a workload of n ops costs n·log n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

#: Shares of a storage, from the first to the second; empty when they are equal.
Interval: TypeAlias = tuple[float, float]

_WHOLE: Final[Interval] = (0.0, 1.0)
_NOTHING: Final[Interval] = (0.0, 0.0)
_COLD: Final = -1
#: A storage that is touched in more pieces than this is forgotten: its next touch is a miss.
_MOST_PIECES: Final = 64


class Access(Struct, frozen=True, kw_only=True):
    """What an op touches of one storage.

    Attributes:
        storage: Id of the memory.
        offset: Which region of it; equal offsets are the same region.
        read_bytes: Read by the op.
        write_bytes: Written.
        reusable: Whether the same bytes are meant next time (not so for looked-up rows).
    """

    storage: int
    offset: object = 0
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    reusable: bool = True

    @property
    def touched_bytes(self) -> float:
        """Bytes that pass through the cache."""
        return max(self.read_bytes, self.write_bytes)


class _Piece(msgspec.Struct, kw_only=True):
    """A part of a storage that was last touched by one op.

    Attributes:
        offset: The region; None for what no op addressed by itself.
        nbytes: Its size.
        last: The op; `_COLD` before any.
        writer: The op whose result it holds.
        dirty: For each cache, the share that is not yet written back.
    """

    offset: object
    nbytes: float
    last: int = _COLD
    writer: int = _COLD
    dirty: list[Interval] = msgspec.field(default_factory=list)


class Reuse:
    """Caches of several sizes, fed with the ops of a workload in order.

    Args:
        capacities: Bytes of each cache.
        ops: How many ops will be seen at most.
        storage_bytes: Size of each storage.
        kept: Storages whose content is needed after the run: what is written there is written to
            memory, at once. Any other is forgotten with its last use: its memory goes to another
            tensor, and what is dirty is overwritten there.
    """

    def __init__(
        self,
        capacities: Sequence[float],
        ops: int,
        storage_bytes: dict[int, float],
        kept: frozenset[int] = frozenset(),
    ) -> None:
        self._capacities = tuple(capacities)
        self._sizes = storage_bytes
        self._kept = kept
        self._pieces: dict[int, list[_Piece]] = {}
        self._touched = _Fenwick(ops)
        self._now = 0
        #: For each cache and op, bytes that it reads from memory, and that its result costs there.
        self.read_bytes = [[0.0] * ops for _ in self._capacities]
        self.write_bytes = [[0.0] * ops for _ in self._capacities]

    def step(self, accesses: Sequence[Access]) -> None:
        """Takes in the next op."""
        now = self._now
        self._now += 1
        found = [(a, p) for a in accesses for p in self._claim(a, a.touched_bytes)]
        pieces = [piece for _, piece in found]
        lines = [self._distance(piece, pieces) for piece in pieces]
        for (access, piece), line in zip(found, lines, strict=True):
            self._visit(access, piece, line, now)
        self._move(pieces, now)

    def _claim(self, access: Access, wanted: float) -> Iterator[_Piece]:
        """The pieces that hold the ``wanted`` bytes; a larger one is split."""
        if not access.reusable:
            # Other bytes of the storage are meant next time: these pass through, for nobody.
            yield self._cold(access.offset, wanted)
            return
        pieces = self._pieces.get(access.storage)
        if pieces is None or len(pieces) > _MOST_PIECES:
            pieces = self._forget(access.storage, pieces or [], wanted)
        if len(pieces) == 1 and pieces[0].nbytes == wanted:  # nearly always
            yield pieces[0]
            return
        own = [p for p in pieces if p.offset == access.offset]
        rest = [p for p in pieces if p.offset is None]
        other = [p for p in pieces if p.offset not in (None, access.offset)]
        for piece in (*own, *rest, *other):
            if wanted <= 0:
                return
            if piece.nbytes > wanted:
                piece = self._split(pieces, piece, access.offset, wanted)
            wanted -= piece.nbytes
            yield piece
        if wanted > 0:  # a view that reaches further than the storage was said to
            pieces.append(self._cold(access.offset, wanted))
            yield pieces[-1]

    def _cold(self, offset: object, nbytes: float) -> _Piece:
        return _Piece(offset=offset, nbytes=nbytes, dirty=[_NOTHING] * len(self._capacities))

    def _forget(self, storage: int, pieces: list[_Piece], wanted: float) -> list[_Piece]:
        for piece in pieces:
            self._touched.add(piece.last, -piece.nbytes)
        size = max(self._sizes.get(storage, 0.0), wanted)
        self._pieces[storage] = [self._cold(None, size)]
        return self._pieces[storage]

    @staticmethod
    def _split(pieces: list[_Piece], piece: _Piece, offset: object, nbytes: float) -> _Piece:
        piece.nbytes -= nbytes
        part = _Piece(
            offset=offset,
            nbytes=nbytes,
            last=piece.last,
            writer=piece.writer,
            dirty=list(piece.dirty),
        )
        pieces.append(part)
        return part

    def _distance(self, piece: _Piece, found: Sequence[_Piece]) -> Interval | None:
        """D(0) and D(1); None for what was never touched."""
        last = piece.last
        if last == _COLD:
            return None
        shared = sum(p.nbytes for p in found if p.last == last)
        only_now = sum(p.nbytes for p in found if p.last < last)
        between = self._touched.after(last)
        only_then = self._touched.at(last) - shared
        return between + shared + only_then, between + shared + only_now

    def _visit(self, access: Access, piece: _Piece, line: Interval | None, now: int) -> None:
        touched = access.touched_bytes
        read, write = access.read_bytes / touched, access.write_bytes / touched
        for i, capacity in enumerate(self._capacities):
            held = _NOTHING if line is None else _below(line, capacity)
            self.read_bytes[i][now] += piece.nbytes * read * (1 - _length(held))
            stays = _common(piece.dirty[i], held)
            if piece.writer != _COLD:
                gone = _length(piece.dirty[i]) - _length(stays)
                self.write_bytes[i][piece.writer] += piece.nbytes * gone
            piece.dirty[i] = stays
            if access.storage in self._kept:
                self.write_bytes[i][now] += piece.nbytes * write
            elif write:
                piece.dirty[i] = _WHOLE
        if write:
            piece.writer = now

    def _move(self, pieces: Sequence[_Piece], now: int) -> None:
        moved = 0.0
        for piece in pieces:
            if piece.last != now:  # overlapping views claim a piece twice
                self._touched.add(piece.last, -piece.nbytes)
                piece.last = now
                moved += piece.nbytes
        self._touched.add(now, moved)


class _Fenwick:
    """Bytes by the op that touched them last; sums behind an op in logarithmic time."""

    def __init__(self, size: int) -> None:
        self._tree = [0.0] * (size + 1)
        self._at = [0.0] * size
        self._whole = 0.0

    def add(self, op: int, nbytes: float) -> None:
        """Adds to an op; nothing for `_COLD`."""
        if op == _COLD:
            return
        self._at[op] += nbytes
        self._whole += nbytes
        i = op + 1
        while i < len(self._tree):
            self._tree[i] += nbytes
            i += i & -i

    def at(self, op: int) -> float:
        """What an op touched last."""
        return self._at[op]

    def after(self, op: int) -> float:
        """What later ops touched last."""
        i, upto = op + 1, 0.0
        while i:
            upto += self._tree[i]
            i -= i & -i
        return self._whole - upto


def _below(line: Interval, capacity: float) -> Interval:
    """The part of 0 to 1 in which a linear function is at most ``capacity``."""
    start, end = line
    if max(line) <= capacity:
        return _WHOLE
    if min(line) > capacity:
        return _NOTHING
    crossing = (capacity - start) / (end - start)
    return (0.0, crossing) if start < end else (crossing, 1.0)


def _common(a: Interval, b: Interval) -> Interval:
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if high > low else _NOTHING


def _length(interval: Interval) -> float:
    return interval[1] - interval[0]
