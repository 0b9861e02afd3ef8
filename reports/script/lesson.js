// A lesson: answers are judged, and numbers, formulas and pictures follow the controls.

const controls = JSON.parse(document.getElementById("json-controls").textContent);
const longestText = 200;
const root = document.documentElement;
const given = JSON.parse(await unpacked("data"));
await run("model");
if (given) model.load(given);

bindBar();

// Questions

/** Answers are kept by the name of their question; forgotten, all questions are as they were at first. */
const answers = answersOf(() => {
  for (const box of document.querySelectorAll("[data-ask]")) {
    for (const field of box.querySelectorAll("form input, form button")) field.disabled = false;
    box.querySelector("form").reset();
    box.querySelector(".feedback").textContent = "";
    delete box.dataset.status;
    delete box.dataset.committed;
    box.querySelector(".answer").open = root.hasAttribute("data-all") && box.matches(".predict");
  }
  gate();
});

/** Judge what is entered; a prediction opens its answer, right or wrong, an exercise only says what is off. */
function bindQuestion(box) {
  const form = box.querySelector("form");
  const key = JSON.parse(box.querySelector('script[type="application/json"]').textContent);
  const feedback = form.querySelector(".feedback");
  const written = () => (key.choices.length ? form.querySelector("input:checked") : form.querySelector('input[type="text"]'))?.value ?? "";
  const keep = (checked) => answers.set(box.id, written() === "" ? null : { text: written(), checked });
  const judge = () => {
    const { status, text } = model.judge(key, written());
    feedback.textContent = text;
    box.dataset.status = status;
    if (box.dataset.ask !== "predict" || status === "empty" || status === "unread") return;
    for (const field of form.querySelectorAll("input, button")) field.disabled = true;
    commit(box);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    judge();
    keep(true);
  });
  form.addEventListener("input", () => keep(false));
  form.querySelector(".skip-it")?.addEventListener("click", () => {
    answers.set(box.id, { text: "", skipped: true });
    commit(box);
  });
  const entry = answers.get(box.id);
  if (entry === null) return;
  for (const field of form.querySelectorAll("input")) {
    if (field.type === "radio") field.checked = field.value === entry.text;
    else field.value = String(entry.text);
  }
  if (entry.checked) judge();
  else if (entry.skipped) commit(box);
}

function commit(box) {
  box.dataset.committed = "";
  box.querySelector(".answer").open = true;
  gate();
}

/** What follows a prediction in its section waits for it. */
function gate() {
  let waits = false;
  for (const element of document.getElementById("content").children) {
    if (element.localName === "h2") waits = false;
    element.classList.toggle("waits", waits);
    const holds = element.matches(".predict:not([data-committed])");
    element.toggleAttribute("data-holds", holds && !waits && (element.nextElementSibling?.localName ?? "h2") !== "h2");
    if (holds) waits = true;
  }
}

const showAll = document.getElementById("show-all");
showAll.addEventListener("click", () => {
  const on = root.toggleAttribute("data-all");
  showAll.setAttribute("aria-pressed", String(on));
  for (const answer of document.querySelectorAll(".predict .answer")) answer.open = on || answer.closest("[data-committed]") !== null;
});

for (const box of document.querySelectorAll("[data-ask]")) bindQuestion(box);

// What is moved

if (given) {
  const first = Object.fromEntries(controls.map(({ key, value }) => [key, value]));
  let state = { ...first };
  let timer = 0;
  const showValue = new Map(controls.map((control) => [control.key, bind(control, longestText, set)]));
  showControls();

  function showControls() {
    for (const { key } of controls) showValue.get(key)(state[key]);
  }

  function set(key, value) {
    if (state[key] === value) return;
    move({ ...state, [key]: value });
  }

  function move(next) {
    state = next;
    showControls();
    root.dataset.waiting = "";
    clearTimeout(timer);
    timer = setTimeout(follow);
  }

  /** Show what follows from the state; where it is refused, say why and keep the old view. */
  function follow() {
    const alert = document.getElementById("alert");
    try {
      render(model.view(state));
      alert.textContent = "";
    } catch (error) {
      alert.textContent = error.message || String(error);
    }
    root.toggleAttribute("data-refused", alert.textContent !== "");
    delete root.dataset.waiting;
  }

  function render(view) {
    document.getElementById("play-note").textContent = view.note;
    patchChildren(document.getElementById("tiles"), view.tiles.map((tile) => tileElement(tile, [])));
    for (const formula of view.formulas) renderFormula(formula, given.forms[given.of_shape[view.shape][formula.key]]);
    for (const picture of view.pictures) renderPicture(picture);
  }

  function renderFormula({ key, symbols, text, value }, form) {
    const box = document.querySelector(`[data-formula="${CSS.escape(key)}"]`);
    box.querySelector(".symbols").replaceChildren(...equation(form.symbols));
    box.querySelector(".numbers").replaceChildren(...equation(form.numbers));
    const numbers = new Map(symbols);
    for (const place of box.querySelectorAll("[data-symbol]")) place.textContent = numbers.get(place.dataset.symbol);
    const end = box.querySelector(".value");
    end.textContent = `= ${text}`;
    if (value === null) delete end.dataset.value;
    else end.dataset.value = String(value);
  }

  /** A formula of ours as elements: a piece for each term, with room between them. */
  function equation(mathml) {
    return [...new DOMParser().parseFromString(mathml, "text/html").body.childNodes].map((node) => document.adoptNode(node));
  }

  function renderPicture({ key, svg, hand, table }) {
    const figure = document.querySelector(`[data-picture="${CSS.escape(key)}"]`);
    const drawn = [svg, hand].map((text) => new DOMParser().parseFromString(text, "image/svg+xml").documentElement);
    figure.querySelector(".still").replaceChildren(...drawn.map((picture) => document.adoptNode(picture)));
    const old = figure.querySelector(".table");
    if (old && table) patch(old, tableElement(table, new Map()));
  }

  document.getElementById("reset").addEventListener("click", () => move({ ...first }));
  document.getElementById("settings").addEventListener("submit", (event) => event.preventDefault());
}

gate();
root.dataset.live = "";
