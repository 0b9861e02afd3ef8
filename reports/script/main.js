// The page comes alive: state from the address, controls bound, the view of the state shown.

const controls = JSON.parse(document.getElementById("json-controls").textContent);
const { data: modelData, view: firstView, reproduce, longest_text: longestText, saved, pinned: firstPin } = JSON.parse(await unpacked("data"));
const program = await run("model");
const firstState = Object.fromEntries(controls.map(({ key, value }) => [key, value]));
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

let state = { ...firstState };
let pinnedState = null;
let pinned = { state: null }; // and its view, or the reason why it has none
let changedAt = -Infinity; // when a control was last moved
let isRefused = false;
let defaults = new Map(); // what controls at zero stand for, by their keys

// What the page shows, part by part. `id` says of which change of the state it is, `asked` is the last of them.
let shown = { id: -1, head: null, keys: [], sections: new Map(), drawn: new Map() }; // drawn: {picture, plot} of each section
let asked = 0;
let isComplete = false; // whether all parts of the last state have come
const late = new Set(); // keys of parts that have come and are not rendered yet: sections, and REST_OF_PAGE
const REST_OF_PAGE = "";
const AFTER_A_DRAG = 100; // ms
const LONGEST_WAIT = 1000; // ms that a part out of view waits for the page to be idle

const charts = makeCharts(model, isDark, openDetails, () => performance.now() - changedAt);
const showValue = new Map(controls.map((control) => [control.key, bind(control, longestText, set)]));

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches;
}

/** Set one control. What follows from it is computed elsewhere, and comes to `receive`. */
function set(key, value) {
  if (state[key] === value) return;
  state = { ...state, [key]: value };
  changedAt = performance.now();
  showControl(key);
  update();
}

function showControl(key) {
  showValue.get(key)(state[key], defaults.get(key) ?? null);
  for (const { key: other, needs } of controls) {
    if (needs && needs[0] === key) document.querySelector(`[data-control="${CSS.escape(other)}"]`).hidden = state[key] !== needs[1];
  }
}

function showControls() {
  for (const { key } of controls) showControl(key);
}

function isFirst(values) {
  return controls.every(({ key }) => values[key] === firstState[key]);
}

/** Ask for what follows from the state. The view of the first state is on the page. */
function update() {
  asked += 1;
  isComplete = false;
  root.dataset.waiting = "";
  if (pinnedState && isFirst(pinnedState)) pinned = { state: pinnedState, view: firstView, error: firstView.error };
  if (pinnedState !== pinned.state && !pinnedState) pinned = { state: null };
  const needsPin = pinnedState !== pinned.state;
  if (isFirst(state) && !needsPin) return receiveWhole(firstView);
  const first = shown.keys.filter((key) => charts.isInView(shown.sections.get(key)?.figure?.key));
  ask({ id: asked, state, first, dark: isDark(), widths: charts.widths(), pinned: needsPin ? pinnedState : null });
}

/** A part of a view has come. What belongs to an older state than what is shown is dropped. */
function receive({ id, head, keys, words, section, key = section?.key, picture, plot, error, pinned: found, isDone }) {
  if (found && id === asked) {
    pinned = { state: pinnedState, ...found };
    renderAgain();
  }
  if (error !== undefined && id === asked) return refuse(error);
  if (head && id > shown.id) showHead(id, head, keys);
  if (section && id === shown.id) {
    shown.sections.set(key, section);
    shown.drawn.set(key, { picture, plot });
    late.add(key);
    if (charts.isInView(section.figure?.key) && renderCaption(section)) charts.show(section.figure, shown.drawn.get(key));
    renderLater();
  } else if (plot && id === shown.id) charts.plotted(shown.sections.get(key).figure, plot);
  if (words && id === shown.id) {
    shown.head = { ...shown.head, answer: words };
    late.add(REST_OF_PAGE);
    renderLater();
  }
  if (isDone && id === asked) {
    isComplete = true;
    renderLater();
  }
}

/** A view that is there as a whole. */
function receiveWhole(view) {
  const { sections, ...head } = view;
  if (view.error && shown.head) return refuse(view.error);
  receive({ id: asked, head, keys: sections.map(({ key }) => key) });
  for (const section of sections) receive({ id: asked, section });
  receive({ id: asked, words: head.answer });
  return receive({ id: asked, isDone: true });
}

function showHead(id, head, keys) {
  if (head.error && shown.head) {
    if (id === asked) refuse(head.error);
    return;
  }
  const sections = new Map([...shown.sections].filter(([key]) => keys.includes(key)));
  const answer = head.answer.length ? head.answer : (shown.head?.answer ?? []); // sentences come later
  shown = { id, head: { ...head, answer }, keys, sections, drawn: new Map() };
  late.clear();
  setRefused(head.error);
  showDefaults(head.defaults);
  root.toggleAttribute("data-changed", !isFirst(state));
  renderHead(head, pinnedView());
  renderOrder(keys);
  charts.prune();
}

/** The datasheet's numbers, with which controls are filled until another is given. */
function showDefaults(given) {
  const before = defaults;
  defaults = new Map(given.map(({ key, value }) => [key, value]));
  for (const { key } of controls) if (before.get(key) !== defaults.get(key)) showControl(key);
}

/** The state is refused: say why, and keep what was shown, marked as old. */
function refuse(error) {
  isComplete = true;
  if (shown.head) setRefused(error);
  else {
    receiveWhole(firstView);
    setRefused(error);
  }
  renderLater();
}

function setRefused(error) {
  isRefused = Boolean(error);
  const alert = document.getElementById("alert");
  if (alert.textContent !== error) alert.textContent = error;
  root.toggleAttribute("data-refused", isRefused);
  for (const button of document.querySelectorAll("#commands .copy")) button.disabled = isRefused;
}

const pinnedView = () => (pinned.view && !pinned.error ? pinned.view : null);

/** Show a part that has come. */
function renderPart(key) {
  late.delete(key);
  const tables = pinnedView() ? tablesOf(pinnedView()) : new Map();
  if (key === REST_OF_PAGE) {
    renderRest(shown.head, tables);
    for (const button of document.querySelectorAll("#commands .copy")) button.disabled = isRefused;
    showPin();
    return;
  }
  const section = shown.sections.get(key);
  renderSection(section, shown.keys, tables);
  if (section.figure) charts.show(section.figure, shown.drawn.get(key));
}

/** Every part once more, beside another pinned view. */
function renderAgain() {
  if (!shown.head) return;
  renderHead(shown.head, pinnedView());
  for (const key of [REST_OF_PAGE, ...shown.sections.keys()]) late.add(key);
  renderLater();
}

let isScheduled = false;

/** Show what is out of view when the page has nothing else to do. */
function renderLater() {
  if (isScheduled) return;
  isScheduled = true;
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(() => work({ timeRemaining: () => 0 })));
  idle(
    (deadline) => {
      isScheduled = false;
      const isDragged = performance.now() - changedAt < AFTER_A_DRAG;
      while (late.size && !isDragged) {
        renderPart(late.values().next().value);
        if (deadline.timeRemaining() < 4) break;
      }
      if (late.size) {
        if (isDragged) setTimeout(renderLater, AFTER_A_DRAG);
        else renderLater();
      } else if (isComplete) settle();
    },
    { timeout: LONGEST_WAIT },
  );
}

/** All of the page shows the state. */
function settle() {
  showPin();
  writeAddress();
  delete root.dataset.waiting;
}

/** When all of the page shows the state. */
function settled() {
  if (!root.hasAttribute("data-waiting")) return Promise.resolve();
  return new Promise((resolve) => {
    const watch = new MutationObserver(() => {
      if (root.hasAttribute("data-waiting")) return;
      watch.disconnect();
      resolve();
    });
    watch.observe(root, { attributeFilter: ["data-waiting"] });
  });
}

/** What is shown, as a view. */
const shownView = () => ({ ...shown.head, sections: shown.keys.map((key) => shown.sections.get(key)) });

/** What `roofline report --from` makes this page from again: the page, what its controls say, and what it shows. */
function wholePage() {
  const view = shownView();
  const repeated = view.commands.find(({ repeats }) => repeats);
  const page = saved && modelData.page ? { ...saved, data: modelData.page } : saved;
  return { reproduce: repeated?.text ?? reproduce, page, state, pinned: pinnedState, view };
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
  if (!location.hash && firstPin) pinnedState = { ...firstState, ...firstPin };
  showControls();
  update();
}

document.getElementById("reset").addEventListener("click", () => {
  state = { ...firstState };
  showControls();
  update();
});

document.getElementById("pin").addEventListener("click", () => {
  pinnedState = pinnedState ? null : { ...state };
  update();
  renderAgain();
});

document.getElementById("settings").addEventListener("submit", (event) => event.preventDefault());
bindBar({ restyled: () => charts.restyle(), written: writeAddress });
document.addEventListener("click", async (event) => {
  const { target } = event;
  const inside = target.closest('#formulas a[href^="#"]');
  if (inside) {
    event.preventDefault(); // the address is the state's
    showPlace(inside.getAttribute("href").slice(1));
  }
  if (!target.matches(".command .copy")) return;
  await settled(); // the command of what the controls say
  if (!target.disabled && target.isConnected) copyBy(target, target.closest(".command").querySelector("code").textContent);
});
document.getElementById("download-csv").addEventListener("click", async () => {
  await settled();
  download("roofline.csv", "text/csv", model.csv(shownView()));
});
document.getElementById("download-json").addEventListener("click", async () => {
  await settled();
  download("roofline.json", "application/json", `${JSON.stringify(wholePage(), null, 1)}\n`);
});

prefersDark.addEventListener("change", () => charts.restyle());

/** Details that were opened for print only. */
let openedForPrint = [];
addEventListener("beforeprint", () => {
  openedForPrint = [...document.querySelectorAll(":is(.numbers, .group, .drawer):not([open])")];
  for (const details of openedForPrint) details.open = true;
  if (root.hasAttribute("data-changed")) charts.forPrint();
});
addEventListener("afterprint", () => {
  for (const details of openedForPrint) details.open = false;
  openedForPrint = [];
});
addEventListener("hashchange", readAddress);

for (const details of document.querySelectorAll("details.numbers")) details.open = false;
// Beside the answer on wide screens; on others a drawer, closed at first.
const drawer = document.querySelector("details.drawer");
const isWide = matchMedia("(min-width: 64rem)");
const fitDrawer = () => {
  drawer.open = isWide.matches;
};
isWide.addEventListener("change", fitDrawer);
fitDrawer();
// Once the tiles are out of sight, a line of their numbers stays in it.
new IntersectionObserver(([{ isIntersecting, boundingClientRect }]) => {
  root.toggleAttribute("data-past-tiles", !isIntersecting && boundingClientRect.bottom <= 0);
}).observe(document.getElementById("tiles"));
model.load(modelData);
const ask = makeWorker(program, modelData, receive);
root.dataset.live = "";
readAddress();
await run("plotly");
charts.drawNext();
if (document.getElementById("packed-formulas")) {
  const { body } = new DOMParser().parseFromString(await unpacked("formulas"), "text/html");
  document.querySelector("#formulas > .note").replaceWith(...body.childNodes);
}
