// Plots: each still picture gives way to a live one when it comes into view, and is drawn again when what it shows changes.

const PLOT_CONFIG = {
  displaylogo: false,
  responsive: false, // the observer below follows the box, which also changes where the window does not
  showSendToCloud: false,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"],
};

const PAPER_WIDTH = 680; // px inside the margins of A4
const NARROW = 480; // px, about a hand

/** The charts of the page: `show(figures)` takes new data, `restyle()` a new theme, `forPrint(on)` a sheet of paper. */
function makeCharts(model, isDark, opened) {
  const charts = new Map();
  let isPrinting = false;
  let isBusy = false;

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

  /** What plotly is to draw. The box takes its height at once, so that drawing it later moves nothing under a pointer. */
  function prepare(chart) {
    chart.width = isPrinting ? PAPER_WIDTH : chart.box.clientWidth;
    chart.made = model.plot(chart.figure, isDark() && !isPrinting, chart.width < NARROW);
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

  /** Draw one chart that is in view, then let the page breathe before the next. */
  function drawNext() {
    if (isBusy || typeof Plotly === "undefined") return;
    const chart = [...charts.values()].find(({ isInView, isStale }) => isInView && isStale);
    if (!chart) return;
    isBusy = true;
    setTimeout(() => {
      isBusy = false;
      if (chart.isStale && charts.has(chart.figure.key)) draw(chart);
      drawNext();
    });
  }

  function show(figures) {
    const boxes = new Map([...document.querySelectorAll("[data-chart]")].map((box) => [box.dataset.chart, box]));
    for (const [key, chart] of charts) {
      if (boxes.get(key) === chart.box) continue;
      if (chart.plot) Plotly.purge(chart.plot);
      inView.unobserve(chart.box);
      sizes.unobserve(chart.box);
      charts.delete(key);
    }
    for (const figure of figures) {
      const box = boxes.get(figure.key);
      const known = charts.get(figure.key);
      const chart = known ?? { box, plot: null, points: null, isInView: false };
      chart.figure = figure;
      prepare(chart);
      if (known) continue;
      charts.set(figure.key, chart);
      inView.observe(box);
      sizes.observe(box);
    }
    drawNext();
  }

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

  return { show, restyle, forPrint, drawNext };
}
