// Checks answers on a worksheet. The translated program decides what is right, and what the feedback is.
const keys = JSON.parse(document.getElementById("keys").textContent).map($.revive);
const forms = [...document.querySelectorAll("form[data-problem]")];
const score = document.getElementById("score");

const written = (form) => {
  const field = form.querySelector("input[type=text]");
  return field ? field.value : (form.querySelector("input:checked")?.value ?? "");
};
const write = (form, text) => {
  const field = form.querySelector("input[type=text]");
  if (field) field.value = text;
  for (const choice of form.querySelectorAll("input[type=radio]")) choice.checked = choice.value === text;
};
const tell = (form, status, text) => {
  const place = form.querySelector(".feedback");
  const field = form.querySelector("input[type=text]");
  if (status === "") delete form.dataset.status;
  else form.dataset.status = status;
  field?.setAttribute("aria-invalid", String(status === "hint" || status === "off" || status === "unread"));
  // the same words once more are said once more
  place.textContent = "";
  if (text !== "") requestAnimationFrame(() => (place.textContent = text));
};
const count = () => {
  const right = forms.filter((form) => form.dataset.status === "right").length;
  score.textContent = right === forms.length ? `All ${right} right.` : right === 0 ? "" : `${right} of ${forms.length} right.`;
};
const judge = (form) => {
  const { status, text } = program.judge(keys[Number(form.dataset.problem)], written(form));
  tell(form, status, text);
};
const answers = answersOf(() => {
  for (const form of forms) {
    write(form, "");
    tell(form, "", "");
  }
  count();
});
const keep = (form, checked) => {
  const text = written(form);
  answers.set(form.dataset.problem, text === "" ? null : { text, checked });
};
for (const form of forms) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    judge(form);
    keep(form, true);
    count();
  });
  form.addEventListener("input", () => {
    keep(form, false);
    if (form.dataset.status === undefined) return;
    tell(form, "", "");
    count();
  });
}
for (const form of forms) {
  const entry = answers.get(form.dataset.problem);
  if (entry === null) continue;
  write(form, String(entry.text));
  if (entry.checked) judge(form);
}
count();
bindBar();
document.documentElement.dataset.live = "";
