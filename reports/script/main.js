// The page comes alive: state from the address, controls bound, the view of the state shown.

const controls = JSON.parse(document.getElementById("json-controls").textContent);
const { data: modelData, view: firstView, reproduce, longest_text: longestText } = JSON.parse(await unpacked("data"));
await run("model");
const firstState = Object.fromEntries(controls.map(({ key, value }) => [key, value]));
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

let state = { ...firstState };
let pinnedState = null;
let pinned = { state: null }; // and its view, or the reason why it has none
let shownView = null; // the last view that could be made
let timer = 0;
let waitingSince = null; // a change that is not shown yet
let lastCost = 0; // ms

const FRAME = 32; // ms that a change may take without being felt
const REST = 120; // ms without a change after which a slow one is shown
const PATIENCE = 500; // ms after which it is shown all the same

const charts = makeCharts(model, isDark, openDetails);
const showValue = new Map(controls.map((control) => [control.key, bind(control, longestText, set)]));

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches;
}

/** Set one control. What follows waits for the next frame; where it takes long, until the slider rests for a moment. */
function set(key, value) {
  if (state[key] === value) return;
  state = { ...state, [key]: value };
  showControls();
  const now = performance.now();
  waitingSince = waitingSince ?? now;
  root.dataset.waiting = "";
  clearTimeout(timer);
  const isQuick = lastCost < FRAME || now - waitingSince > PATIENCE;
  timer = setTimeout(settle, isQuick ? 0 : REST);
}

function settle() {
  waitingSince = null;
  const start = performance.now();
  update();
  writeAddress();
  delete root.dataset.waiting;
  lastCost = performance.now() - start;
}

function showControls() {
  for (const control of controls) {
    showValue.get(control.key)(state[control.key]);
    if (control.needs) {
      const [key, value] = control.needs;
      document.querySelector(`[data-control="${CSS.escape(control.key)}"]`).hidden = state[key] !== value;
    }
  }
}

function isFirst(values) {
  return controls.every(({ key }) => values[key] === firstState[key]);
}

/** The view of a state, or the reason why there is none. That of the first state is on the page. */
function viewOf(values) {
  if (isFirst(values)) return { view: firstView, error: firstView.error };
  try {
    const view = model.view(values);
    return { view, error: view.error };
  } catch (error) {
    return { view: null, error: error.message || String(error) };
  }
}

/** Show the state; where it is refused, say why and keep what was shown, marked as old. */
function update() {
  const { view, error } = viewOf(state);
  if (pinned.state !== pinnedState) pinned = { state: pinnedState, ...(pinnedState ? viewOf(pinnedState) : {}) };
  document.getElementById("alert").textContent = error;
  root.toggleAttribute("data-refused", Boolean(error));
  if (!error) show(view, state);
  else if (!shownView) show(firstView, firstState);
  showPin();
}

function show(view, values) {
  shownView = view;
  root.toggleAttribute("data-changed", !isFirst(values));
  render(view, pinned.view && !pinned.error ? pinned.view : null);
  charts.show(view.sections.flatMap(({ figure }) => (figure ? [figure] : [])));
}

function showPin() {
  const button = document.getElementById("pin");
  button.setAttribute("aria-pressed", String(Boolean(pinnedState)));
  button.textContent = pinnedState ? "Unpin" : "Pin for comparison";
  const differing = pinnedState ? controls.filter(({ key }) => pinnedState[key] !== state[key]) : [];
  const settings = differing.map((control) => `${control.label} ${shownText(control, pinnedState[control.key])}`);
  const what = settings.length ? settings.join(", ") : "the settings as they are; change one to compare";
  document.getElementById("pinned").textContent = pinnedState ? `Pinned: ${what}${pinned.error ? ` (${pinned.error})` : "."}` : "";
}

/** The address says what the state is, so that a copied link brings it back. A page inside another has no address to write. */
function writeAddress() {
  const hash = hashOf(controls, firstState, state, pinnedState);
  if (hash === location.hash) return;
  try {
    history.replaceState(null, "", hash || location.pathname + location.search);
  } catch {
    // about:srcdoc, a sandbox
  }
}

function readAddress() {
  ({ state, pinned: pinnedState } = statesOf(location.hash, controls, firstState, longestText));
  showControls();
  update();
}

document.getElementById("reset").addEventListener("click", () => {
  state = { ...firstState };
  showControls();
  update();
  writeAddress();
});

document.getElementById("pin").addEventListener("click", () => {
  pinnedState = pinnedState ? null : { ...state };
  update();
  writeAddress();
});

document.getElementById("settings").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("copy-link").addEventListener("click", ({ target }) => copyBy(target, location.href));
document.addEventListener("click", (event) => {
  const { target } = event;
  const inside = target.closest('#formulas a[href^="#"]');
  if (inside) {
    event.preventDefault(); // the address is the state's
    showPlace(inside.getAttribute("href").slice(1));
  }
  if (target.matches(".command .copy")) copyBy(target, target.closest(".command").querySelector("code").textContent);
});
document.getElementById("download-csv").addEventListener("click", () => download("roofline.csv", "text/csv", model.csv(shownView)));
document.getElementById("download-json").addEventListener("click", () => {
  download("roofline.json", "application/json", `${JSON.stringify({ reproduce, state, view: shownView }, null, 1)}\n`);
});

for (const choice of document.querySelectorAll('input[name="theme"]')) {
  choice.addEventListener("change", () => {
    if (choice.value === "auto") delete root.dataset.theme;
    else root.dataset.theme = choice.value;
    charts.restyle();
  });
}
prefersDark.addEventListener("change", () => charts.restyle());

/** Details that were opened for print only. */
let openedForPrint = [];
addEventListener("beforeprint", () => {
  openedForPrint = [...document.querySelectorAll(":is(.numbers, .group):not([open])")];
  for (const details of openedForPrint) details.open = true;
  if (root.hasAttribute("data-changed")) charts.forPrint(true);
});
addEventListener("afterprint", () => {
  for (const details of openedForPrint) details.open = false;
  openedForPrint = [];
  if (root.hasAttribute("data-changed")) charts.forPrint(false);
});
addEventListener("hashchange", readAddress);

for (const details of document.querySelectorAll("details.numbers")) details.open = false;
root.dataset.live = "";
model.load(modelData);
readAddress();
await run("plotly");
charts.drawNext();
