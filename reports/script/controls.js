// The controls: elements of the page, bound to the state. A number has a slider and a box; both show the same value.

// NB: every eighth of a doubling, and every doubling itself: powers of two are what people ask for.
const STOPS_A_DOUBLING = 8;

/** The values that a slider stops at: of a logarithmic one evenly spaced in its logarithm. Null for a plain one. */
function stopsOf(control) {
  if (!control.log) return null;
  const stops = new Set([allowed(control, control.low)]);
  const from = Math.floor(Math.log2(control.low) * STOPS_A_DOUBLING);
  const to = Math.ceil(Math.log2(control.high) * STOPS_A_DOUBLING);
  for (let index = from; index <= to; index += 1) {
    const number = 2 ** (index / STOPS_A_DOUBLING);
    const isDoubling = index % STOPS_A_DOUBLING === 0;
    // three digits are enough between powers of two
    if (number > control.low && number < control.high) stops.add(allowed(control, isDoubling ? number : Number(number.toPrecision(3))));
  }
  stops.add(allowed(control, control.high));
  return [...stops].sort((one, other) => one - other);
}

/** Index of the stop that is nearest to a number. */
function nearest(stops, number) {
  let best = 0;
  stops.forEach((stop, index) => {
    if (Math.abs(stop - number) < Math.abs(stops[best] - number)) best = index;
  });
  return best;
}

/** What a control shows where it is no control: in print, and in the line that tells what is pinned. */
function shownText(control, value) {
  if (control.kind === "switch") return value ? "on" : "off";
  if (control.kind === "choice") return control.choices.find((choice) => choice.value === value).text;
  return control.zero && value === 0 ? control.zero : `${value} ${control.unit}`.trim();
}

/** Bind one control: calls `changed(key, value)`, gives a function that shows a value. */
function bind(control, longestText, changed) {
  const box = document.querySelector(`[data-control="${CSS.escape(control.key)}"]`);
  const field = document.getElementById(`control-${control.key}`);
  const isSwitch = control.kind === "switch";
  const tell = (value) => changed(control.key, value);
  const slide = control.kind === "number" ? bindSlider(control, box.querySelector('input[type="range"]'), tell) : () => {};
  const read = () => (isSwitch ? field.checked : parsed(control, field.value, longestText));
  let current = control.value;
  field.addEventListener("input", () => {
    const value = read();
    if (value !== undefined) tell(value); // else somebody is still typing
  });
  field.addEventListener("change", () => {
    if (control.kind === "number" && field.value !== "") tell(allowed(control, Number(field.value)));
    if (!isSwitch) field.value = String(current);
  });
  return (value) => {
    current = value;
    box.querySelector(".shown").textContent = shownText(control, value);
    if (isSwitch) field.checked = value;
    else if (read() !== value) field.value = String(value);
    slide(value);
  };
}

/** Bind the slider of a number; gives a function that moves it to a value. */
function bindSlider(control, slider, tell) {
  const stops = stopsOf(control);
  const at = (position) => (stops ? stops[position] : allowed(control, position));
  slider.min = stops ? 0 : control.low;
  slider.max = stops ? stops.length - 1 : control.high;
  slider.step = stops ? 1 : control.step || "any";
  slider.addEventListener("input", () => tell(at(Number(slider.value))));
  return (value) => {
    if (at(Number(slider.value)) !== value) slider.value = stops ? nearest(stops, value) : value;
    slider.setAttribute("aria-valuetext", shownText(control, value));
  };
}
