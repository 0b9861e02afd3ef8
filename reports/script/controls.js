// The controls: elements of the page, bound to the state. A number has a slider and a box; both show the same value.

// NB: every eighth of a doubling, and every doubling itself: powers of two are what people ask for.
const STOPS_A_DOUBLING = 8;
const ROUND = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];

/** The values that a slider stops at: of a logarithmic one evenly spaced in its logarithm. Null for a plain one. */
function stopsOf(control) {
  if (!control.log) return null;
  if (control.slider) return roundStops(control);
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

/** Round numbers between the ends of a slider, after "none" where there is that. */
function roundStops(control) {
  const [from, to] = control.slider;
  const stops = new Set(control.zero ? [0] : []);
  for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power += 1) {
    for (const digits of ROUND) stops.add(allowed(control, Number(`${digits}e${power}`)));
  }
  return [...stops].filter((stop) => stop === 0 || (stop >= from && stop <= to));
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

/**
 * Bind one control: calls `changed(key, value)`, gives a function that shows a value. Its second argument is the number that is
 * shown where the value is 0, which stands for it: that of the datasheet.
 */
function bind(control, longestText, changed) {
  const box = document.querySelector(`[data-control="${CSS.escape(control.key)}"]`);
  const field = document.getElementById(`control-${control.key}`);
  const isSwitch = control.kind === "switch";
  const tell = (value) => changed(control.key, value);
  const undo = box.querySelector(".undo");
  const slide = control.kind === "number" ? bindSlider(control, box.querySelector('input[type="range"]'), tell) : () => {};
  const isNone = (value) => Boolean(control.zero) && value === 0;
  let fallback = null;
  // the placeholder says what no number means
  const boxText = (value) => (!isNone(value) ? String(value) : fallback === null ? "" : String(fallback));
  const read = () => {
    if (isSwitch) return field.checked;
    if (control.zero && field.value === "") return field.validity.badInput ? undefined : 0;
    const value = parsed(control, field.value, longestText);
    return fallback !== null && value === fallback ? 0 : value;
  };
  let current = control.value;
  field.addEventListener("input", () => {
    const value = read();
    if (value !== undefined) tell(value); // else somebody is still typing
  });
  field.addEventListener("change", () => {
    if (control.kind === "number" && field.value !== "" && read() !== current) tell(allowed(control, Number(field.value)));
    if (!isSwitch) field.value = control.kind === "number" ? boxText(current) : String(current);
  });
  undo.addEventListener("click", () => {
    field.focus();
    tell(control.value);
  });
  return (value, whatZeroIs = null) => {
    const isOther = fallback !== whatZeroIs;
    current = value;
    fallback = whatZeroIs;
    undo.hidden = value === control.value;
    box.querySelector(".shown").textContent = shownText(control, value);
    if (isSwitch) field.checked = value;
    else if (read() !== value || (isOther && isNone(value))) field.value = control.kind === "number" ? boxText(value) : String(value);
    slide(value, whatZeroIs);
  };
}

/** Bind the slider of a number; gives a function that moves it to a value. */
function bindSlider(control, slider, tell) {
  const own = stopsOf(control);
  let stops = own;
  let fallback = null;
  const at = (position) => (!stops ? allowed(control, position) : stops[position] === fallback ? 0 : stops[position]);
  function fit() {
    slider.min = stops ? 0 : control.low;
    slider.max = stops ? stops.length - 1 : control.high;
    slider.step = stops ? 1 : control.step || "any";
  }
  fit();
  slider.addEventListener("input", () => tell(at(Number(slider.value))));
  return (value, whatZeroIs) => {
    if (fallback !== whatZeroIs) {
      // the datasheet's number is a stop among the others, in the place of none at the end
      fallback = whatZeroIs;
      stops = fallback === null ? own : [...new Set([...own.filter((stop) => stop !== 0), fallback])].sort((one, other) => one - other);
      fit();
    }
    const sought = value === 0 && fallback !== null ? fallback : value;
    if (at(Number(slider.value)) !== value) slider.value = stops ? nearest(stops, sought) : value;
    slider.setAttribute("aria-valuetext", value === 0 && fallback !== null ? `${fallback} ${control.unit}, ${control.zero}` : shownText(control, value));
  };
}
