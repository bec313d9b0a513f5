"""From a move of the batch slider to the repainted page of gambrel explore, in chromium.

python benchmarks/explore.py [--moves 40] [--opens 12] [--model densenet121] [--pause 1]

The first move of a slider asks the server; while the hand is on it the page asks for the other
values ahead. The answer, the figures and the chart are repainted first, the table and the
breakdown follow. Wall times are those of the machine as it is: its load stands beside them. The
times of the processor, of the process that answers and of the page's thread, do not depend on it
much.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

#: Moves the slider once, waits for the title to change and for the frame after it.
MOVED = """async (place) => {
  const frame = () => new Promise((r) => requestAnimationFrame(() => setTimeout(r)));
  const slider = document.querySelector(".slider input[type=range]");
  const title = document.querySelector("h1");
  const before = title.textContent;
  await frame();
  const changed = (element, is) => new Promise((done) => {
    const seen = new MutationObserver(() => {
      if (!is()) return;
      seen.disconnect();
      done();
    });
    seen.observe(element, { subtree: true, childList: true, characterData: true });
  });
  const answered = changed(document.body, () => title.textContent !== before);
  window.followed = changed(document.querySelector(".linked tbody"), () => true);
  const start = performance.now();
  slider.value = place;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  await answered;
  await frame();
  window.followed = window.followed.then(frame).then(() => performance.now() - start);
  return performance.now() - start;
}"""
#: Waits for the table that follows; time since the move.
FOLLOWED = "() => window.followed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=40)
    parser.add_argument("--opens", type=int, default=12, help="pages for values not asked ahead")
    parser.add_argument("--model", default="densenet121", help="of 430 rows, as it stands")
    parser.add_argument("--pause", type=float, default=1.0, help="s after the first move")
    given = parser.parse_args()
    from tests.report.browser import Reader, chromium

    from gambrel.explorer.server import ExplorerServer

    asked = {"model": given.model, "hardware": "a100-sxm4-80gb"}
    server = ExplorerServer({"verb": "analyze", "given": asked})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with chromium() as browser:
            tab = Reader(browser).tab
            tab.goto(server.address)
            tab.wait_for_selector(".slider", timeout=120_000)
            session = tab.context.new_cdp_session(tab)
            session.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
            session.send("Performance.enable")
            measured(tab, session, server, given)
    finally:
        server.shutdown()
        server.close()


def measured(tab: Any, session: Any, server: Any, given: argparse.Namespace) -> None:
    rows = tab.inner_text(".linked output").split(" of ")[1]
    first = [unasked(tab, 3 + i, given.pause) for i in range(given.opens)]
    tab.wait_for_timeout(1000 * given.pause)
    *_, page = server.sessions._known.values()
    answering = page._workers[True]._process.pid
    wall, table, answer, paint, rest = [], [], [], [], []
    for i in range(given.moves):
        tab.wait_for_timeout(50)
        before = seconds_of(answering), busy(session)
        wall.append(tab.evaluate(MOVED, 4 + i % 30))
        painted = busy(session)
        table.append(tab.evaluate(FOLLOWED))
        answer.append(1000 * (seconds_of(answering) - before[0]))
        paint.append(1000 * (painted - before[1]))
        rest.append(1000 * (busy(session) - painted))
    print(f"{given.moves} moves, {rows}; load of the machine {os.getloadavg()[0]:.1f}")
    print(f"wall time, value not asked for:  {said(first)}")
    print(f"wall time to the chart:          {said(wall)}")
    print(f"wall time to the table:          {said(table)}")
    print(f"processor, page to the chart:    {said(paint)}")
    print(f"processor, page, table after it: {said(rest)}")
    print(f"processor, answers meanwhile:    {said(answer)}")


def unasked(tab: Any, place: int, pause: float) -> float:
    """The first move of a page opened anew, before it asks for values ahead on its own."""
    tab.reload()
    tab.wait_for_selector("html[data-ready]", timeout=120_000)
    tab.wait_for_timeout(1000 * min(pause, 1.0))
    moved: float = tab.evaluate(MOVED, place)
    return moved


def said(values: list[float]) -> str:
    ranked = sorted(values)
    middle, late = statistics.median(ranked), ranked[int(0.95 * (len(ranked) - 1))]
    return f"p50 {middle:.0f} ms, p95 {late:.0f} ms"


def seconds_of(pid: int) -> float:
    """Of the processor, by all threads of a process (Linux: /proc/PID/schedstat of each)."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in tasks) / 1e9


def busy(session: Any) -> float:
    """Seconds of the page's main thread."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(m["value"] for m in metrics if m["name"] == "TaskDuration")


if __name__ == "__main__":
    main()
