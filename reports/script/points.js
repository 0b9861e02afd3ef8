// The points of a plot by keyboard: arrow keys go from point to point, Enter opens what a point stands for.

/** The steps that a key asks for: [points of a row, rows]. A row is a series, or one of a heat map. */
const POINT_STEPS = {
  ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1], Home: [-Infinity, 0], End: [Infinity, 0],
};

/** Make the points of a plot reachable. `opened(key)` is called for the key of a point; `renew()` when the plot was drawn again. */
function makePoints(plot, title, opened) {
  const text = h("p", { class: "unseen", "aria-live": "polite" });
  plot.after(text);
  plot.tabIndex = 0;
  plot.setAttribute("role", "group");
  plot.setAttribute("aria-label", `${title}: arrow keys move through the points`);
  let rows = [];
  let here = null; // the point that is shown
  let at = [0, 0];

  function renew() {
    rows = plot.data.flatMap(rowsOf).filter((row) => row.length);
    leave();
  }

  function leave() {
    here = null;
    text.textContent = "";
    Plotly.Fx.unhover(plot);
  }

  function go([points, lines]) {
    const within = (index, list) => Math.min(list.length - 1, Math.max(0, index));
    if (here) at = [at[0] + points, at[1] + lines];
    const row = within(at[1], rows);
    at = [within(at[0], rows[row]), row];
    here = rows[row][at[0]];
    Plotly.Fx.hover(plot, [{ curveNumber: here.curve, pointNumber: here.number }]);
    text.textContent = here.text;
  }

  plot.addEventListener("keydown", (event) => {
    if (event.target !== plot || !rows.length || event.ctrlKey || event.metaKey || event.altKey) return;
    if (POINT_STEPS[event.key]) go(POINT_STEPS[event.key]);
    else if (event.key === "Enter" && here) opened(here.key);
    else return;
    event.preventDefault();
  });
  plot.addEventListener("blur", leave);
  plot.on("plotly_click", ({ points }) => opened(points[0].customdata));
  return { renew };
}

/** The points of a trace that have a text, each with its number and key: one row, or those of a heat map. */
function rowsOf({ hovertext: texts, hoverinfo, customdata: keys = [] }, curve) {
  if (!Array.isArray(texts) || hoverinfo === "skip") return [];
  const point = (number, text, key) => ({ curve, number, text: readable(text), key });
  if (!Array.isArray(texts[0])) return [texts.map((text, index) => point(index, text, keys[index]))];
  return texts.map((row, index) => row.map((text, column) => point([index, column], text, keys[index] && keys[index][column])));
}

/** A text that was written for plotly, which reads some markup. */
function readable(text) {
  return text.replaceAll("<br>", "\n").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}
