// Slides: one at a time, by keys, buttons and swipes; an overview; and a presenter's view in a window of its own, which follows.

const root = document.documentElement;
const slides = [...document.querySelectorAll(".slide")];
const notes = [...document.querySelectorAll(".notes")];
const parts = JSON.parse(document.getElementById("json-parts").textContent);
const name = document.title;
const byId = (id) => document.getElementById(id);

/** What both windows show: the index of the slide, how many presses on it, whether all is blank, when the clock started. */
let state = { slide: 0, step: 0, blank: false, started: null };
let peer = null; // the other window
let alone = false; // the presenter's view is in this window, since there could be no other

const labels = slides.map((slide) => slide.dataset.label); // pictures in one place share a number: 7, 7b
const count = parseInt(labels.at(-1));
const steps = slides.map((slide) => Math.max(0, ...[...slide.querySelectorAll("[data-step]")].map((each) => Number(each.dataset.step))));

// Moves

/** Show a state; `isTold` if it comes from the other window. */
function show(next, isTold = false) {
  const before = state;
  state = { ...state, ...next };
  state.slide = Math.min(Math.max(state.slide, 0), slides.length - 1);
  state.step = Math.min(Math.max(state.step, 0), steps[state.slide]);
  if (state.started === null && !isTold && state.slide > before.slide) state.started = Date.now();
  render();
  if (before.slide !== state.slide || before.step !== state.step) announce();
  if (!isTold) tell();
}

function render() {
  const isOverview = root.dataset.mode === "overview";
  root.toggleAttribute("data-blank", state.blank && root.dataset.mode !== "presenter");
  for (const [at, slide] of slides.entries()) {
    const isCurrent = at === state.slide;
    const step = isOverview || !isCurrent ? steps[at] : state.step;
    slide.classList.toggle("current", isCurrent);
    slide.classList.toggle("following", at === state.slide + 1);
    notes[at].classList.toggle("current", isCurrent);
    slide.dataset.at = steps[at] && step === 0 ? "0" : "1";
    for (const each of slide.querySelectorAll("[data-step]")) each.classList.toggle("seen", Number(each.dataset.step) <= step);
  }
  const ending = root.dataset.mode === "presenter" ? "-presenter" : "";
  const hash = `#${labels[state.slide]}${state.step ? `.${state.step}` : ""}${ending}`;
  if (location.hash !== hash) history.replaceState(null, "", hash);
  byId("back").disabled = state.slide === 0 && state.step === 0;
  byId("next").disabled = state.slide === slides.length - 1 && state.step === steps[state.slide];
  if (isOverview) slides[state.slide].scrollIntoView({ block: "nearest" });
  tick();
}

/** Say where one is, and take the focus there: what is read aloud begins at the slide. */
function announce() {
  const said = slides[state.slide].matches(".question") ? "h2, .body > p:not(.quiet)" : "h2"; // what waits for the answer is not read
  const title = [...slides[state.slide].querySelectorAll(said)].slice(0, 2).map((each) => each.textContent.trim()).join(": ");
  byId("status").textContent = `Slide ${labels[state.slide]} of ${count}: ${title}${state.step ? ", answer shown" : ""}`;
  const focused = document.activeElement;
  if (!focused || focused === document.body || focused.classList.contains("slide")) slides[state.slide].focus({ preventScroll: true });
}

function forward() {
  if (state.step < steps[state.slide]) show({ step: state.step + 1 });
  else if (state.slide < slides.length - 1) show({ slide: state.slide + 1, step: 0 });
}

/** What was shown last goes first: back to a slide means to its end. */
function back() {
  if (state.step > 0) show({ step: state.step - 1 });
  else if (state.slide > 0) show({ slide: state.slide - 1, step: steps[state.slide - 1] });
}

/** The index of the slide with a label; the last one if there is none. */
function placeOf(label) {
  const at = labels.indexOf(String(label));
  return at < 0 ? slides.length - 1 : at;
}

function go(slide) {
  show({ slide, step: 0 });
}

// Modes

function setMode(mode) {
  if (mode) root.dataset.mode = mode;
  else delete root.dataset.mode;
  render();
}

function toggleOverview() {
  const before = alone || isPresenter ? "presenter" : "";
  setMode(root.dataset.mode === "overview" ? before : "overview");
}

/** How far down or up the next row of the overview is. */
function columns() {
  const first = slides[0].offsetTop;
  return Math.max(slides.findIndex((slide) => slide.offsetTop > first), 1);
}

/** Open the presenter's view in a window of its own, or where no window can be opened in this one. */
function present() {
  if (isPresenter) return;
  if (alone) {
    alone = false;
    setMode("");
    return;
  }
  const opened = open(`${location.href.split("#")[0]}#${labels[state.slide]}.${state.step}-presenter`, "", "popup,width=1280,height=800");
  if (opened) peer = opened;
  else {
    alone = true;
    setMode("presenter");
  }
}

// Two windows: each tells the other what it shows. Files have no origin to name, so the sender is checked instead.

const isPresenter = /-presenter$/.test(location.hash) && window.opener !== null;
if (isPresenter) peer = window.opener;

function tell() {
  if (peer && !peer.closed) peer.postMessage({ name, state }, "*");
}

addEventListener("message", ({ source, data }) => {
  if (!data || data.name !== name || source === window) return;
  if (source !== peer) {
    if (isPresenter) return;
    peer = source; // the presenter's view, after this window was loaded again
  }
  if (data.hello) {
    if (data.started && state.started === null) state.started = data.started;
    tell();
  } else if (data.state) show(data.state, true);
});

// The clock: since the first move, against the minutes of the plan

function clock(seconds) {
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
}

function tick() {
  const seconds = state.started === null ? 0 : (Date.now() - state.started) / 1000;
  byId("elapsed").textContent = clock(seconds);
  const part = parts[Number(slides[state.slide].dataset.part)];
  const pace = byId("pace");
  const late = part ? seconds / 60 - part.end : 0;
  pace.toggleAttribute("data-late", late > 0);
  if (part) {
    const behind = late > 0 ? `, ${Math.ceil(late)} min behind` : "";
    pace.textContent = `${part.title}: ${part.minutes} min, ${part.end - part.minutes}:00 to ${part.end}:00${behind}`;
  } else pace.textContent = "Before the first part";
  const presses = steps[state.slide] - state.step;
  byId("place").textContent = `Slide ${labels[state.slide]} of ${count}${presses ? ", the next press shows the answer" : ""}`;
}

byId("reset").addEventListener("click", () => show({ started: Date.now() }));
setInterval(() => {
  if (isPresenter && peer && !peer.closed) peer.postMessage({ name, hello: true, started: state.started }, "*");
  if (root.dataset.mode === "presenter") tick();
}, 500);

// Keys, buttons, swipes

let digits = "";
const help = byId("help");

const keys = {
  ArrowRight: forward,
  PageDown: forward,
  " ": forward,
  ArrowDown: forward,
  ArrowLeft: back,
  PageUp: back,
  ArrowUp: back,
  Home: () => go(0),
  End: () => go(slides.length - 1),
  Escape: toggleOverview,
  o: toggleOverview,
  p: present,
  b: () => show({ blank: !state.blank }),
  ".": () => show({ blank: !state.blank }),
  f: () => (document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen?.()),
  "?": () => help.showModal(),
};
const overviewKeys = {
  ArrowRight: () => go(state.slide + 1),
  ArrowLeft: () => go(state.slide - 1),
  ArrowDown: () => go(state.slide + columns()),
  ArrowUp: () => go(state.slide - columns()),
  Enter: toggleOverview,
  " ": toggleOverview,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const { key, target } = event;
  if (target.matches("input, summary") || (target.matches("button, a") && (key === " " || key === "Enter"))) return;
  if (/^\d$/.test(key)) {
    digits += key;
    return;
  }
  const number = Number(digits);
  digits = "";
  const isOverview = root.dataset.mode === "overview";
  const act = key === "Enter" && number ? () => go(placeOf(number)) : (isOverview && overviewKeys[key]) || keys[key];
  if (!act) return;
  event.preventDefault();
  if (state.blank && key !== "b" && key !== ".") show({ blank: false });
  else act();
});

for (const [id, act] of Object.entries({ back, next: forward, overview: toggleOverview, presenter: present, blank: keys.b, keys: keys["?"] })) {
  byId(id).addEventListener("click", act);
}
for (const [at, slide] of slides.entries()) {
  slide.addEventListener("click", () => {
    if (root.dataset.mode !== "overview") return;
    go(at);
    toggleOverview();
  });
}

let touched = null;
document.addEventListener("touchstart", ({ touches }) => {
  touched = touches.length === 1 ? touches[0] : null;
}, { passive: true });
document.addEventListener("touchend", ({ changedTouches }) => {
  if (!touched || root.dataset.mode === "overview") return;
  const across = changedTouches[0].clientX - touched.clientX;
  const down = changedTouches[0].clientY - touched.clientY;
  touched = null;
  if (Math.abs(across) < 40 || Math.abs(across) < 2 * Math.abs(down)) return;
  if (across < 0) forward();
  else back();
}, { passive: true });

let resting = 0;
addEventListener("pointermove", () => {
  root.dataset.moving = "";
  clearTimeout(resting);
  resting = setTimeout(() => delete root.dataset.moving, 2500);
});

// Paper

if (new URLSearchParams(location.search).has("notes")) root.dataset.notes = "";
byId("print-notes").addEventListener("click", () => {
  const before = root.hasAttribute("data-notes");
  root.dataset.notes = "";
  addEventListener("afterprint", () => root.toggleAttribute("data-notes", before), { once: true });
  print();
});

// The start: what the address says

/** Show the slide of the address, as #12, #12b or #12.1. */
function follow() {
  const [, slide, step] = /^#(\d+[a-z]?)(?:\.(\d+))?/.exec(location.hash) || [null, "1", "0"];
  show({ slide: placeOf(slide), step: Number(step || 0) }, true);
}

addEventListener("hashchange", () => {
  follow();
  tell();
});
bindBar();
if (isPresenter) root.dataset.mode = "presenter";
root.dataset.live = "";
follow();
if (isPresenter) peer.postMessage({ name, hello: true, started: null }, "*");
