"""What a page costs while a slider is dragged: CPU time of its main thread and of its worker, and time by the clock.

Each of ten settings of a model is dragged to by ten events, 16 ms apart. For each event: how long the handler runs, and how
long rendering the tiles takes when they come from the worker (`performance.measure`, style and layout included). From the last
event until every figure in view shows it: CPU time of both threads, as Linux counts it, and the clock, to the next frame; that
clock includes what the worker had begun for events before. Last, the CPU time of the whole drag until the page is at rest, with
the plots that take the place of pictures then.

The clock is that of a machine with nothing else to do, or it says how busy the machine was. So limits are held to by CPU time:
the worker's and the main thread's together, which wait for each other.

    python benchmarks/pages.py [--settings 10]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from roofline.report.analysis.page import report

PAGES = {
    "llama-3.1-8b on h100-sxm": ("llama-3.1-8b", "h100-sxm", {}),
    "deepseek-v3 on 8 h200-sxm": ("deepseek-v3", "h200-sxm", {"tp": 8}),
}
SLIDERS = ("batch", "input_len", "context", "output_len", "bandwidth_gbs")
TILES_MS, FIGURES_MS = 16.0, 100.0
# What the worker is asked, and what comes from it, is noted. Layout is forced, so that it is in the time.
_WATCH = """(() => {
  window.heads = [];
  window.sections = [];
  window.Worker = class extends Worker {
    postMessage(request) {
      window.asked = request.id;
      super.postMessage(request);
    }
    set onmessage(receive) {
      super.onmessage = (event) => {
        const start = performance.now();
        receive(event);
        const { id, head, section } = event.data;
        if (section) sections.push({ id, key: section.key });
        window.look?.();
        if (!head) return;
        document.getElementById("tiles").getBoundingClientRect();
        heads.push(performance.measure("tiles", { start }).duration);
      };
    }
  };
  window.move = (key, value) => {
    const slider = document.querySelector(`[data-control="${key}"] input[type="range"]`);
    slider.value = value;
    const start = performance.now();
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    return performance.measure("event", { start }).duration;
  };
})()"""

_DRAG = """async ([key, from]) => {
  heads.length = sections.length = 0;
  const events = [];
  for (let step = 0; step < 9; step += 1) {
    events.push(move(key, from + step));
    await new Promise((resolve) => setTimeout(resolve, 16));
  }
  return events;
}"""

_LAST = """async ([key, value]) => {
  const charts = [...document.querySelectorAll("[data-chart]")].filter((chart) => {
    const { top, bottom } = chart.getBoundingClientRect();
    return top < innerHeight && bottom > 0;
  });
  const last = performance.now();
  const event = move(key, value);
  const isShown = ({ dataset }) => sections.some((section) => section.id === asked && section.key === dataset.chart);
  await new Promise((resolve) => {
    window.look = () => charts.every(isShown) && requestAnimationFrame(resolve);
    window.look(); // where the slider stands at its end, nothing is asked
    setTimeout(resolve, 5000);
  });
  return { events: [event], heads: [...heads], clock: performance.now() - last };
}"""


def descendants(of: int) -> list[int]:
    """Processes that a process has started, and theirs."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents.setdefault(int(after_name[1]), []).append(int(folder.name))
    found = list(parents.get(of, []))
    for process in found:
        found += parents.get(process, [])
    return found


def threads() -> dict[str, list[Path]]:
    """The files with the CPU times of the two threads of a page, whose browser this process has started."""
    for process in descendants(os.getpid()):
        tasks = {task: (task / "comm").read_text(encoding="utf-8").strip() for task in Path(f"/proc/{process}/task").iterdir()}
        workers = [task / "schedstat" for task, name in tasks.items() if name.startswith("DedicatedWorker")]
        if workers:
            return {"main thread": [Path(f"/proc/{process}/task/{process}/schedstat")], "worker": workers}
    raise SystemExit("no thread of a page's worker: pages are measured on Linux")


def spent(of: list[Path]) -> float:
    """CPU time of threads, ms."""
    return sum(int(path.read_text(encoding="utf-8").split()[0]) for path in of) / 1e6


def measured(browser: Browser, path: Path, settings: int) -> dict[str, list[float]]:
    """Milliseconds of each kind, over all settings of a page."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.add_init_script(_WATCH)
    page.goto(path.as_uri())
    page.locator("[data-chart=explorer] .main-svg").first.wait_for()
    page.wait_for_timeout(3000)
    page.evaluate("move('batch', 10)")  # makes the worker, as the name of its thread is looked for
    page.wait_for_timeout(2000)
    times: dict[str, list[float]] = {
        EVENT: [],
        TILES: [],
        BOTH: [],
        MAIN: [],
        WORKER: [],
        CLOCK: [],
        REST_MAIN: [],
        REST_WORKER: [],
    }
    both = threads()
    for number in range(settings):
        key, start = SLIDERS[number % len(SLIDERS)], 12 + 3 * number
        first = {name: spent(files) for name, files in both.items()}
        events = page.evaluate(_DRAG, [key, start])
        before = {name: spent(files) for name, files in both.items()}
        last = page.evaluate(_LAST, [key, start + 9])
        main, worker = (spent(files) - before[name] for name, files in both.items())
        page.locator("html:not([data-waiting])").wait_for(state="attached")
        page.wait_for_timeout(1500)
        whole_main, whole_worker = (spent(files) - first[name] for name, files in both.items())
        for kind, values in zip(
            times,
            (
                events + last["events"],
                last["heads"],
                [main + worker],
                [main],
                [worker],
                [last["clock"]],
                [whole_main],
                [whole_worker],
            ),
            strict=True,
        ):
            times[kind] += values
    page.close()
    return times


EVENT, TILES, BOTH, MAIN, WORKER = "event", "tiles", "figures", "  of it main thread", "  of it worker"
CLOCK, REST_MAIN, REST_WORKER = "figures, by the clock", "all of a drag, main thread", "all of a drag, worker"


def main() -> int:
    """Measure, print, compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", type=int, default=10, help="drags of each page [10]")
    settings = parser.parse_args().settings
    passes = True
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (model, hardware, options) in PAGES.items():
            path = Path(folder) / f"{model}.html"
            path.write_text(report(model, [hardware], options), encoding="utf-8")
            times = measured(browser, path, settings)
            for kind, values in times.items():
                print(f"{name:<28}{kind:<28}{statistics.median(values):7.1f} ms  (most {max(values):.1f}, of {len(values)})")
            tiles = statistics.median(times[EVENT]) + statistics.median(times[TILES])
            passes &= tiles <= TILES_MS and statistics.median(times[BOTH]) <= FIGURES_MS
        browser.close()
    busy = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(
        f"limits: event and tiles {TILES_MS:g} ms, figures {FIGURES_MS:g} ms of CPU time after the last event; medians; {busy}"
    )
    return 0 if passes else 1


if __name__ == "__main__":
    sys.exit(main())
