// The state: what every control is set to; what of it stands in the address, and what of an address is believed.

/** The number of digits after the point that a step or a low end needs. */
function digitsAfterPoint(number) {
  const [mantissa, power = "0"] = String(number).split("e");
  return Math.min(20, Math.max(0, (mantissa.split(".")[1] || "").length - Number(power)));
}

/** The nearest value that a number control can have: between its ends, whole steps above the low one. */
function allowed(control, number) {
  const { low, high, step } = control;
  if (!step) return Math.min(high, Math.max(low, number));
  const steps = Math.min(Math.round((number - low) / step), Math.floor((high - low) / step + 1e-9));
  return Number((low + Math.max(0, steps) * step).toFixed(Math.max(digitsAfterPoint(step), digitsAfterPoint(low))));
}

/** A value as the address writes it. */
function written(value) {
  return typeof value === "boolean" ? (value ? "1" : "0") : String(value);
}

/** The value that a text stands for, undefined where the control cannot have it. */
function parsed(control, text, longestText) {
  if (control.kind === "number") {
    const number = /^-?\d{1,30}(\.\d{1,30})?(e[+-]?\d{1,3})?$/i.test(text) ? Number(text) : NaN;
    return Number.isFinite(number) && allowed(control, number) === number ? number : undefined;
  }
  if (control.kind === "choice") return control.choices.some((choice) => choice.value === text) ? text : undefined;
  if (control.kind === "switch") return text === "1" || text === "0" ? text === "1" : undefined;
  return text.length <= longestText && !/[\p{Cc}\p{Cf}\p{Cs}]/u.test(text) ? text : undefined;
}

/** The states of an address: the one to show, and the pinned one or null. What is no known key with a possible value is passed by. */
function statesOf(hash, controls, first, longestText) {
  const known = new Map(controls.map((control) => [control.key, control]));
  const state = { ...first };
  const pinned = { ...first };
  let isPinned = false;
  for (const part of hash.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    if (at < 0) continue;
    const name = decoded(part.slice(0, at));
    const text = decoded(part.slice(at + 1));
    if (name === undefined || text === undefined) continue;
    if (name === "pin" && text === "1") isPinned = true;
    const ofPin = name.startsWith("pin.");
    const control = known.get(ofPin ? name.slice("pin.".length) : name);
    const value = control && parsed(control, text, longestText);
    if (value === undefined) continue;
    (ofPin ? pinned : state)[control.key] = value;
    isPinned = isPinned || ofPin;
  }
  return { state, pinned: isPinned ? pinned : null };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined; // a % that stands for nothing
  }
}

/** The address of a state and a pinned one: what differs from the first state, "" where nothing does. */
function hashOf(controls, first, state, pinned) {
  const differing = (values, prefix) =>
    controls
      .filter(({ key }) => values[key] !== first[key])
      .map(({ key }) => `${prefix}${encodeURIComponent(key)}=${encodeURIComponent(written(values[key]))}`);
  const parts = differing(state, "");
  if (pinned) {
    const ofPin = differing(pinned, "pin.");
    parts.push(...(ofPin.length ? ofPin : ["pin=1"]));
  }
  return parts.length ? `#${parts.join("&")}` : "";
}
