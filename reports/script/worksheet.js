// Checks answers on a worksheet. The translated program decides what is right, and what the feedback is.
const keys = JSON.parse(document.getElementById("keys").textContent).map($.revive);
const forms = [...document.querySelectorAll("form[data-problem]")];
const score = document.getElementById("score");

const written = (form) => {
  const field = form.querySelector("input[type=text]");
  return field ? field.value : (form.querySelector("input:checked")?.value ?? "");
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
for (const form of forms) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { status, text } = program.judge(keys[Number(form.dataset.problem)], written(form));
    tell(form, status, text);
    count();
  });
  form.addEventListener("input", () => {
    if (form.dataset.status === undefined) return;
    tell(form, "", "");
    count();
  });
}
bindBar();
document.documentElement.dataset.live = "";
