// What a reader enters on a page, kept by the browser until the reader has it forgotten; where it stores nothing, nothing is kept.

/** Entries by name, of the page that `data-answers` of the root's body names. `forget` is bound to the control of the page. */
function answersOf(restored) {
  const key = `roofline: ${document.body.dataset.answers}`;
  const control = document.getElementById("forget");
  let storage = null;
  let entries = {};
  try {
    storage = window.localStorage;
    entries = JSON.parse(storage.getItem(key) ?? "{}");
  } catch {
    // refused, or not ours: as if nothing was there
  }
  const write = () => {
    const none = Object.keys(entries).length === 0;
    try {
      if (none) storage?.removeItem(key);
      else storage?.setItem(key, JSON.stringify(entries));
    } catch {
      storage = null;
    }
    control.hidden = none || storage === null;
  };
  control.addEventListener("click", () => {
    entries = {};
    write();
    restored();
  });
  control.hidden = storage === null || Object.keys(entries).length === 0;
  return {
    get: (name) => (Object.hasOwn(entries, name) ? entries[name] : null),
    set: (name, entry) => {
      if (entry === null) delete entries[name];
      else entries[name] = entry;
      write();
    },
  };
}
