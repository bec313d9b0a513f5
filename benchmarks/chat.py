"""gambrel ask, cold; and turns of a conversation, after the first."""

from __future__ import annotations

import sys
import time

from common import alternate, report, run, spread
from gambrel.chat.answers.results import forget
from gambrel.chat.frame import Understood
from gambrel.chat.repl import turn
from gambrel.chat.session import Conversation
from gambrel.chat.understand import understand
from gambrel.report.options import Options

ROUNDS = 11
COLD = (
    "Is ResNet-50 compute-bound or memory-bound on an A100?",
    "Can ResNet-50 achieve 5ms latency on a Jetson Orin Nano?",
    "What's the best hardware for running YOLOv8n at 30fps with under 10W power?",
    "explain ridge point",
)
#: Question → what its turn needs.
TURNS = {
    "how fast is resnet50 on an a100": "one analysis",
    "and at batch 32?": "one analysis",
    "on an l4?": "one analysis",
    "why?": "one analysis",
    "and the memory?": "one analysis",
    "what if int8?": "two analyses",
    "compare that with an h100": "two devices",
    "how fast is llama-3-8b decode on an h100": "one analysis, 1,400 ops",
    "can resnet50 do 2 ms on an l4": "a check",
    "ridge point of an h100": "a device",
    "explain mfu": "a term",
    "how fast is renset50 on an a100": "one analysis, a misspelling",
    "Is ResNet-50 compute-bound or memory-bound on an A100?": "with recommendations",
    "best hardware for yolov8n at 30 fps under 10 W": "all devices",
    "how big is the kv cache of llama-3-70b at 32k context": "a cache",
    "how many h200 for llama-3-70b with tpot under 30 ms": "plans for 1 and for 2 devices",
    "which is faster for resnet50, l4 or t4, and why": "two devices, every runtime",
    "how fast is resnet50 on an a100 under tensorrt": "one analysis",
}


def main() -> None:
    cold = {q: lambda q=q: run([sys.executable, "-m", "gambrel", "ask", q])[0] for q in COLD}
    for once in cold.values():
        once()
    rows = [[q, "cold", "", spread(times), ""] for q, times in alternate(cold, ROUNDS).items()]
    rows += [[q, what, *turns(q)] for q, what in TURNS.items()]
    rows.append(["understanding alone, mean over the turns", "", "", spread(parsing()), ""])
    report(
        "chat",
        "Chat",
        ["question", "needs", "ms to the answer", "ms to the end", "CPU ms to the end"],
        rows,
        notes=[
            f"Minimum / median / maximum of {ROUNDS} rounds. Cold: process start to end. Others: "
            "one turn within a conversation, rendered text included, after a first turn; the "
            "sentence that answers is shown before the recommendations are worked out.",
            "Targets: the first question under 600 ms cold; a turn under 50 ms.",
        ],
    )


def turns(question: str) -> list[str]:
    """Time to the first and to the last text of a turn; follow-ups refer to a first question."""
    first, last, busy = [], [], []
    for _ in range(ROUNDS + 1):
        session = Conversation(options=Options())
        forget()
        list(turn(session, "how fast is resnet50 on an a100", session.options))
        if isinstance(understand(question), Understood):
            forget()  # it starts afresh; only a follow-up may build on the turn before
        start, cpu = time.perf_counter(), time.process_time()
        parts = turn(session, question, session.options)
        next(parts)
        first.append(time.perf_counter() - start)
        list(parts)
        last.append(time.perf_counter() - start)
        busy.append(time.process_time() - cpu)
    return [spread(times[1:]) for times in (first, last, busy)]


def parsing() -> list[float]:
    first = understand("how fast is resnet50 on an a100").frame  # type: ignore[union-attr]

    def once() -> float:
        start = time.perf_counter()
        for question in TURNS:
            understand(question, first)
        return (time.perf_counter() - start) / len(TURNS)

    return [once() for _ in range(ROUNDS)]


if __name__ == "__main__":
    main()
