// Plots: each still picture gives way to a live one when it comes into view, and is drawn again when what it shows changes.

const PLOT_CONFIG = {
  displaylogo: false,
  responsive: false, // the observer below follows the box, which also changes where the window does not
  showSendToCloud: false,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"],
};

const PAPER_WIDTH = 680; // px inside the margins of A4

const REST = 40; // ms without a change, after which plots are drawn
const LONGEST_REST = 400; // ms after which they are drawn all the same
const LONGEST_IDLE = 500; // ms that a plot out of view waits for the page to be idle; without a limit, a browser may never call

/**
 * The charts of the page: `show(figure, plot)` takes new data, `restyle()` a new theme, `forPrint(on)` a sheet of paper.
 * `rested()` says for how many ms nothing was changed.
 */
function makeCharts(model, isDark, opened, rested) {
  const charts = new Map();
  let isPrinting = false;
  let waiting = null; // what is to be drawn next: whether it is in view, and how not to
  let staleSince = null;

  const ofBox = (box) => charts.get(box.dataset.chart);
  const inView = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) if (ofBox(target)) ofBox(target).isInView = isIntersecting;
      drawNext();
    },
    { rootMargin: "200px 0px" },
  );
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const chart = ofBox(target);
      if (chart && !isPrinting && chart.width !== target.clientWidth) prepare(chart);
    }
    drawNext();
  });

  /** What plotly is to draw: as it came with the figure, or made here. A box takes the height at once, so that drawing it later moves
   * nothing under a pointer. */
  function prepare(chart, plot = null) {
    const dark = isDark() && !isPrinting;
    const isFit = plot && plot.dark === dark && plot.width === chart.width && !isPrinting;
    if (!isFit) chart.width = isPrinting ? PAPER_WIDTH : chart.box.clientWidth;
    chart.made = isFit ? plot.made : model.plot(chart.figure, dark, chart.width);
    chart.box.style.height = `${chart.made.layout.height}px`;
    chart.isStale = true;
  }

  function draw(chart) {
    const { box, figure, made } = chart;
    chart.isStale = false;
    if (!chart.plot) {
      chart.plot = document.createElement("div");
      chart.plot.className = "plot";
      box.append(chart.plot);
      box.dataset.drawn = "";
    }
    Plotly.react(chart.plot, made.data, { ...made.layout, width: chart.width }, PLOT_CONFIG);
    if (!chart.points) chart.points = makePoints(chart.plot, figure.title, opened);
    chart.points.renew();
  }

  /** Draw one chart that is in view, then let the page breathe before the next; those out of view when nothing else is to do. */
  function drawNext() {
    if (typeof Plotly === "undefined") return;
    const stale = [...charts.values()].filter(({ isStale }) => isStale);
    const seen = stale.find(({ isInView }) => isInView);
    const chart = seen ?? stale[0];
    staleSince = chart ? (staleSince ?? performance.now()) : null;
    if (waiting && seen && !waiting.isSeen) {
      waiting.cancel(); // one in view does not wait behind one out of view
      waiting = null;
    }
    if (waiting || !chart) return;
    const mustWait = rested() < REST && performance.now() - staleSince < LONGEST_REST;
    const work = () => {
      waiting = null;
      if (!mustWait && chart.isStale && charts.get(chart.figure.key) === chart) {
        draw(chart);
        staleSince = null;
      }
      drawNext();
    };
    if (mustWait || seen || !window.requestIdleCallback) {
      const timer = setTimeout(work, mustWait ? REST - rested() : 0);
      waiting = { isSeen: Boolean(seen), cancel: () => clearTimeout(timer) };
    } else {
      const request = requestIdleCallback(work, { timeout: LONGEST_IDLE });
      waiting = { isSeen: false, cancel: () => cancelIdleCallback(request) };
    }
  }

  function show(figure, plot) {
    const box = document.querySelector(`[data-chart="${CSS.escape(figure.key)}"]`);
    let chart = charts.get(figure.key);
    if (chart && chart.box !== box) {
      remove(chart);
      chart = null;
    }
    if (chart) {
      chart.figure = figure;
      prepare(chart, plot);
    } else {
      chart = { box, figure, plot: null, points: null, isInView: false };
      charts.set(figure.key, chart);
      prepare(chart, plot);
      inView.observe(box);
      sizes.observe(box);
    }
    drawNext();
  }

  function remove(chart) {
    if (chart.plot) Plotly.purge(chart.plot);
    inView.unobserve(chart.box);
    sizes.unobserve(chart.box);
    charts.delete(chart.figure.key);
  }

  /** Forget the charts whose boxes have gone. */
  function prune() {
    for (const chart of [...charts.values()]) if (!chart.box.isConnected) remove(chart);
  }

  const isInView = (key) => Boolean(charts.get(key)?.isInView);

  /** The width of each chart. */
  const widths = () => Object.fromEntries([...charts].map(([key, { width }]) => [key, width]));

  function restyle() {
    for (const chart of charts.values()) prepare(chart);
    drawNext();
  }

  /** Every plot at the width of the sheet and in light colours, or back. */
  function forPrint(on) {
    if (typeof Plotly === "undefined") return;
    isPrinting = on;
    for (const chart of charts.values()) {
      prepare(chart);
      if (on) draw(chart);
    }
    drawNext();
  }

  return { show, prune, isInView, widths, restyle, forPrint, drawNext };
}
