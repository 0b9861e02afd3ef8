"""What a page costs while a slider is dragged: time of the page's main thread, as the browser itself counts it.

Each of ten settings of a model is dragged to by ten events, 16 ms apart. For each event: how long the handler runs, and how
long rendering the tiles takes when they come from the worker (`performance.measure`, style and layout included). After the
last one: what the main thread spends until the figures in view are drawn, and how long that takes by the clock.

    python benchmarks/pages.py [--settings 10]
"""

from __future__ import annotations

import argparse
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

# What comes from the worker is timed as it is received; layout is forced, so that it is in the time.
_WATCH = """(() => {
  window.heads = [];
  window.Worker = class extends Worker {
    set onmessage(receive) {
      super.onmessage = (event) => {
        const start = performance.now();
        receive(event);
        if (!event.data.head) return;
        document.getElementById("tiles").getBoundingClientRect();
        heads.push(performance.measure("tiles", { start }).duration);
      };
    }
  };
})()"""

_DRAG = """async ([key, from]) => {
  const slider = document.querySelector(`[data-control="${key}"] input[type="range"]`);
  const charts = [...document.querySelectorAll("[data-chart]")].filter((chart) => {
    const { top, bottom } = chart.getBoundingClientRect();
    return top < innerHeight && bottom > 0;
  });
  const drawn = new Map();
  for (const chart of charts) chart.querySelector(".plot").on("plotly_afterplot", () => drawn.set(chart, performance.now()));
  heads.length = 0;
  const events = [];
  for (let step = 0; step < 10; step += 1) {
    slider.value = from + step;
    const start = performance.now();
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    events.push(performance.measure("event", { start }).duration);
    if (step < 9) await new Promise((resolve) => setTimeout(resolve, 16));
  }
  const last = performance.now();
  while (charts.some((chart) => !(drawn.get(chart) > last)) && performance.now() - last < 5000) {
    await new Promise((resolve) => setTimeout(resolve, 4));
  }
  const clock = Math.max(...drawn.values()) - last;
  return { events, heads: [...heads], clock, charts: charts.length };
}"""


def measured(browser: Browser, path: Path, settings: int) -> dict[str, list[float]]:
    """Milliseconds of each kind, over all settings of a page."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.add_init_script(_WATCH)
    page.goto(path.as_uri())
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        metrics = {one["name"]: float(one["value"]) for one in session.send("Performance.getMetrics")["metrics"]}
        return metrics["TaskDuration"] * 1e3

    page.locator("[data-chart=explorer] .main-svg").first.wait_for()
    page.wait_for_timeout(3000)
    times: dict[str, list[float]] = {"event": [], "tiles": [], "figures": [], "figures, by the clock": []}
    for number in range(settings):
        before = busy()
        drag = page.evaluate(_DRAG, [SLIDERS[number % len(SLIDERS)], 12 + 3 * number])
        spent = busy() - before
        times["event"] += drag["events"]
        times["tiles"] += drag["heads"]
        times["figures"].append(spent - sum(drag["events"]) - sum(drag["heads"]))
        times["figures, by the clock"].append(drag["clock"])
        page.locator("html:not([data-waiting])").wait_for(state="attached")
        page.wait_for_timeout(500)
    return times


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
                print(f"{name:<28}{kind:<24}{statistics.median(values):7.1f} ms  (most {max(values):.1f}, of {len(values)})")
            tiles = statistics.median(times["event"]) + statistics.median(times["tiles"])
            passes &= tiles <= TILES_MS and statistics.median(times["figures, by the clock"]) <= FIGURES_MS
        browser.close()
    print(f"limits: event and tiles {TILES_MS:g} ms, figures {FIGURES_MS:g} ms after the last event; medians")
    return 0 if passes else 1


if __name__ == "__main__":
    sys.exit(main())
