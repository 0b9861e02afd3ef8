// The bar of every page: theme, link, print.

/** Bind the bar: `restyled()` is called after a change of the theme, `written()` before the link is copied. */
function bindBar({ restyled = () => {}, written = () => {} } = {}) {
  const { dataset } = document.documentElement;
  for (const choice of document.querySelectorAll('input[name="theme"]')) {
    choice.addEventListener("change", () => {
      if (choice.value === "auto") delete dataset.theme;
      else dataset.theme = choice.value;
      restyled();
    });
  }
  document.getElementById("copy-link").addEventListener("click", ({ target }) => {
    written();
    copyBy(target, location.href);
  });
  document.getElementById("print").addEventListener("click", () => print());
}
