// Practice: a problem at a time, of the topics and levels that are chosen. The translated program judges answers, as on a worksheet.

/** An element whose inside is HTML that the page was written with. */
function filled(tag, attributes, html) {
  const element = h(tag, attributes);
  element.innerHTML = html;
  return element;
}

function bindPractice(templates) {
  const byId = new Map(templates.map((template) => [template.id, template]));
  const choose = document.getElementById("choose");
  const every = document.getElementById("every");
  const place = document.getElementById("problem");
  let current = null;

  const state = (id) => answers.get(id) ?? { tries: 0, solved: false };
  const chosen = (name) => new Set([...choose.querySelectorAll(`[name="${name}"]:checked`)].map(({ value }) => value));
  const pool = () => {
    const [topics, levels] = [chosen("topic"), chosen("level")];
    return templates.filter(({ topic, level }) => topics.has(topic) && levels.has(level));
  };

  /** How many kinds of problem are solved, of each topic and of what is chosen. */
  const count = () => {
    const solved = (some) => some.filter(({ id }) => state(id).solved).length;
    for (const one of choose.querySelectorAll("[data-progress]")) {
      const some = templates.filter(({ topic }) => topic === one.dataset.progress);
      one.textContent = `${solved(some)} of ${some.length} solved`;
    }
    const some = pool();
    document.getElementById("pool").textContent =
      some.length === 0
        ? "No problem has this topic and difficulty: choose another."
        : `${some.length} kinds of problem, ${solved(some)} of them solved.`;
    choose.querySelector("[type=submit]").disabled = some.length === 0;
    every.textContent = chosen("topic").size === 0 ? "All" : "None";
  };

  /** One of the kinds that were tried least, not the one before. */
  const next = () => {
    const some = pool().filter(({ id }) => id !== current?.template.id);
    const least = Math.min(...some.map(({ id }) => state(id).tries));
    const fewest = some.filter(({ id }) => state(id).tries === least);
    const template = fewest[Math.floor(Math.random() * fewest.length)] ?? pool()[0];
    if (template) show(template, state(template.id).tries % template.problems.length);
  };

  const another = () => show(current.template, (current.variant + 1) % current.template.problems.length);

  const show = (template, variant, { focused = true } = {}) => {
    const problem = template.problems[variant];
    const key = $.revive(structuredClone(problem.key));
    current = { template, variant };
    history.replaceState(null, "", `#${template.id}/${variant}`);
    const feedback = h("p", { class: "feedback", role: "status" });
    const field = h("input", { id: "answer", type: "text", maxlength: 80, autocapitalize: "off", spellcheck: "false", "aria-describedby": "help" });
    const form = problem.choices.length
      ? h(
          "form",
          { autocomplete: "off", novalidate: "" },
          h(
            "fieldset",
            {},
            h("legend", { class: "unseen" }, "Answer"),
            problem.choices.map((choice, at) =>
              h("label", { class: "choice" }, h("input", { type: "radio", name: "answer", value: at }), h("span", {}, choice)),
            ),
          ),
          h("button", { type: "submit" }, "Check"),
          feedback,
        )
      : h(
          "form",
          { autocomplete: "off", novalidate: "" },
          h("label", { for: "answer" }, "Your answer"),
          h("div", { class: "entry" }, field, h("button", { type: "submit" }, "Check")),
          h("p", { class: "help", id: "help" }, problem.help),
          feedback,
        );
    const hints = problem.hints.map(([title, html]) =>
      h("details", { class: "hint" }, h("summary", {}, title), filled("div", {}, html)),
    );
    const solution = h(
      "details",
      { class: "solution", hidden: "" },
      h("summary", {}, "Solution"),
      filled("div", {}, problem.solution),
      h("p", { class: "answer" }, h("strong", {}, `Answer: ${problem.right}`)),
      h("h3", {}, "Usual mistakes"),
      h("ul", {}, problem.wrong.map(([number, hint]) => h("li", {}, h("strong", {}, number), `: ${hint}`))),
      problem.source && h("p", { class: "note" }, `Source: ${problem.source}.`),
    );
    const like = h("button", { type: "button", id: "another" }, "Another like this");
    const onward = h("button", { type: "button", id: "next" }, "Next problem");
    const title = h("h2", { id: "title", tabindex: -1 }, `${problem.title} `, h("span", { class: "minutes" }, `${template.minutes} min`));
    place.replaceChildren(title, filled("div", {}, problem.text), form, ...hints, solution, h("div", { class: "moves" }, like, onward));

    let tried = false;
    let opened = false;
    const tell = (status, text) => {
      if (status === "") delete form.dataset.status;
      else form.dataset.status = status;
      field.setAttribute("aria-invalid", String(["hint", "off", "unread"].includes(status)));
      // the same words once more are said once more
      feedback.textContent = "";
      if (text !== "") requestAnimationFrame(() => (feedback.textContent = text));
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const entry = problem.choices.length ? (form.querySelector("input:checked")?.value ?? "") : field.value;
      const { status, text } = program.judge(key, entry);
      tell(status, text);
      if (status === "empty" || status === "unread") return;
      const before = state(template.id);
      answers.set(template.id, {
        tries: before.tries + (tried ? 0 : 1),
        solved: before.solved || (status === "right" && !opened),
      });
      tried = true;
      solution.hidden = false;
      count();
    });
    form.addEventListener("input", () => {
      if (form.dataset.status !== undefined) tell("", "");
    });
    solution.addEventListener("toggle", () => {
      opened ||= solution.open;
    });
    like.addEventListener("click", another);
    onward.addEventListener("click", next);
    onward.disabled = pool().length === 0;
    if (focused) title.focus();
  };

  /** The problem that the address names. */
  const addressed = () => {
    const [id, variant] = location.hash.slice(1).split("/");
    const template = byId.get(id);
    return template?.problems[Number(variant)] ? [template, Number(variant)] : null;
  };

  const answers = answersOf(count);
  const keep = () => {
    count();
    const onward = document.getElementById("next");
    if (onward) onward.disabled = pool().length === 0;
  };
  choose.addEventListener("submit", (event) => {
    event.preventDefault();
    next();
  });
  choose.addEventListener("change", keep);
  every.addEventListener("click", () => {
    const none = chosen("topic").size === 0;
    for (const box of choose.querySelectorAll('[name="topic"]')) box.checked = none;
    keep();
  });
  addEventListener("hashchange", () => {
    const wanted = addressed();
    if (wanted) show(...wanted);
  });
  // on a phone the problem comes first
  document.getElementById("choices").open = matchMedia("(min-width: 60rem)").matches;
  count();
  show(...(addressed() ?? [templates[0], state(templates[0].id).tries % templates[0].problems.length]), { focused: false });
  bindBar();
  document.documentElement.dataset.live = "";
}

unpacked("templates").then((text) => bindPractice(JSON.parse(text)));
