// Figures: what changes is at once a still picture, which takes a few ms; when the page rests, a live plot takes its place.

const PLOT_CONFIG = {
  displaylogo: false,
  responsive: false, // the observer below follows the box, which also changes where the window does not
  showSendToCloud: false,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"],
};

const PAPER_WIDTHS = [480, 760]; // px of a picture on paper: of half of a page, of all of it

const REST = 250; // ms without a change, after which plots are drawn
const LONGEST_IDLE = 500; // ms that a plot out of view waits for the page to be idle; without a limit, a browser may never call

/**
 * The charts of the page: `show(figure, drawn)` takes new data, `plotted(figure, plot)` what plotly is to draw of it, `restyle()` a new
 * theme, `forPrint()` a sheet of paper. `rested()` says for how many ms nothing was changed.
 */
function makeCharts(model, isDark, opened, rested) {
  const charts = new Map();
  let waiting = null; // what is to be drawn next: whether it is in view, and how not to

  const ofBox = (box) => charts.get(box.dataset.chart);
  const inView = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const chart = ofBox(target);
        if (!chart) continue;
        chart.isInView = isIntersecting;
        if (chart.isStale) showPicture(chart);
      }
      drawNext();
    },
    { rootMargin: "200px 0px" },
  );
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const chart = ofBox(target);
      if (chart && !matchMedia("print").matches && chart.width !== target.clientWidth) fit(chart);
    }
    drawNext();
  });

  /** A box takes its height at once, so that what is drawn later moves nothing under a pointer. */
  function fit(chart, width = chart.box.clientWidth, height = model.height(chart.figure, width)) {
    chart.width = width;
    chart.box.style.height = `${height}px`;
    chart.made = null;
    chart.isStale = true;
  }

  /** The picture of a chart in view takes the place of a plot of older data, unless that is being read by keyboard. */
  function showPicture(chart) {
    const { box, figure } = chart;
    if (!chart.isInView || box.dataset.still !== "old" || box.contains(document.activeElement)) return;
    if (chart.picture?.width !== chart.width) chart.picture = { width: chart.width, svg: model.picture(figure, chart.width) };
    putPicture(chart, chart.picture.svg);
    delete box.dataset.drawn;
  }

  function putPicture({ box }, svg) {
    let still = box.querySelector(".still");
    if (!still) {
      still = h("div", { class: "still" });
      box.prepend(still);
    }
    still.replaceChildren(document.adoptNode(new DOMParser().parseFromString(svg, "image/svg+xml").documentElement));
    box.dataset.still = "now";
  }

  function draw(chart) {
    const { box, figure } = chart;
    chart.isStale = false;
    if (!chart.plot) {
      chart.plot = document.createElement("div");
      chart.plot.className = "plot";
      box.append(chart.plot);
    }
    box.dataset.drawn = "";
    const made = chart.made ?? model.plot(figure, isDark(), chart.width);
    Plotly.react(chart.plot, made.data, { ...made.layout, width: chart.width }, PLOT_CONFIG);
    chart.made = null;
    if (!chart.points) chart.points = makePoints(chart.plot, figure.title, opened);
    chart.points.renew();
  }

  /** Draw one chart that is in view, then let the page breathe before the next; those out of view when nothing else is to do. */
  function drawNext() {
    if (typeof Plotly === "undefined") return;
    const stale = [...charts.values()].filter(({ isStale }) => isStale);
    const seen = stale.find(({ isInView }) => isInView);
    const chart = seen ?? stale[0];
    if (waiting && seen && !waiting.isSeen) {
      waiting.cancel(); // one in view does not wait behind one out of view
      waiting = null;
    }
    if (waiting || !chart) return;
    const rest = REST - rested();
    const work = () => {
      waiting = null;
      if (rest <= 0 && chart.isStale && charts.get(chart.figure.key) === chart) draw(chart);
      drawNext();
    };
    if (rest > 0 || seen || !window.requestIdleCallback) {
      const timer = setTimeout(work, Math.max(rest, 0));
      waiting = { isSeen: Boolean(seen), cancel: () => clearTimeout(timer) };
    } else {
      const request = requestIdleCallback(work, { timeout: LONGEST_IDLE });
      waiting = { isSeen: false, cancel: () => cancelIdleCallback(request) };
    }
  }

  /** `picture` of the figure is `{width, height, svg}`, `plot` as of `plotted`. A figure that is drawn already stays as it is. */
  function show(figure, { picture = null, plot = null } = {}) {
    const box = document.querySelector(`[data-chart="${CSS.escape(figure.key)}"]`);
    const text = JSON.stringify(figure);
    let chart = charts.get(figure.key);
    if (chart && chart.box !== box) {
      remove(chart);
      chart = null;
    }
    if (chart?.text === text) return;
    const isNew = !chart;
    if (isNew) {
      chart = { box, plot: null, points: null, isInView: false };
      charts.set(figure.key, chart);
    }
    Object.assign(chart, { figure, text, picture });
    if (!isNew && picture?.width === chart.width) fit(chart, picture.width, picture.height); // measuring takes longer than all else
    else fit(chart);
    if (!isNew || document.documentElement.hasAttribute("data-changed")) box.dataset.still = "old";
    if (plot) plotted(figure, plot);
    showPicture(chart);
    if (isNew) {
      inView.observe(box);
      sizes.observe(box);
    }
    drawNext();
  }

  /** What plotly is to draw of a figure (`made`), in one theme and width. */
  function plotted(figure, { dark, width, made }) {
    const chart = charts.get(figure.key);
    if (chart && chart.figure === figure && dark === isDark() && width === chart.width) chart.made = made;
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
    for (const chart of charts.values()) [chart.made, chart.isStale] = [null, true];
    drawNext();
  }

  /** Pictures of what the page shows, as wide as those that it came with: they are printed. */
  function forPrint() {
    for (const chart of charts.values()) {
      putPicture(chart, model.picture(chart.figure, PAPER_WIDTHS[chart.box.closest(".half") ? 0 : 1]));
      chart.picture = null;
    }
  }

  return { show, plotted, prune, isInView, widths, restyle, forPrint, drawNext };
}
