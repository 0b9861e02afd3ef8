// What buttons do: copy, download, open.

/** Put text on the clipboard; where there is no clipboard to write to, by a selection. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = h("textarea", { class: "unseen", "aria-hidden": "true", tabindex: "-1" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

/** Copy, and say so: to eyes on the button, to ears in the line below. */
async function copyBy(button, text) {
  const before = button.textContent;
  const focused = document.activeElement;
  await copyText(text);
  if (focused) focused.focus();
  button.textContent = "Copied";
  document.getElementById("done").textContent = `Copied: ${text}`;
  setTimeout(() => {
    button.textContent = before;
  }, 1500);
}

/** Hand a text to the reader as a file. */
function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: name }).click();
  document.getElementById("done").textContent = `Written: ${name}`;
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** Show what a point stands for, where the page has it. */
function openDetails(key) {
  if (key !== undefined && key !== null) showPlace(`op-${key}`);
}

/** Open what an element is in, and go there. */
function showPlace(id) {
  const place = document.getElementById(id);
  if (!place) return;
  for (let box = place; box; box = box.parentElement) if (box.localName === "details") box.open = true;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  place.scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "start" });
  place.querySelector("summary")?.focus({ preventScroll: true });
}
