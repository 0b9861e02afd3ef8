"use strict";
// The view of standin.py once more, by hand, in place of the translated module.
const model = (() => {
  const OPERATORS = ["q_proj", "k_proj", "attention", "up_proj", "down_proj"];
  const TOKENS = [512, 1024, 4096];
  const LIMIT = 2 ** 20;
  let name = "";

  const word = (text) => ({ text, value: null });
  const cell = (text, value) => ({ text, value });
  const count = (value) => cell(value.toFixed(0), value);
  const column = (text, number) => ({ name: text, number });
  const series = (given) => ({
    base: [], size: [], labels: [], short: [], along: [], low: [], high: [], x_high: [], z: [], texts: [], hatched: [], hatched_name: "", keys: [], shades: [],
    variant: null, ...given,
  });

  function roofline(points) {
    const dots = (text, role, by) =>
      series({
        name: text, kind: "points", role,
        x: points.map((point) => point * by),
        y: points.map((point) => point * by * 2e10),
        size: points.map((_, index) => (index + 1) / points.length),
        labels: points.map((point, index) => `${OPERATORS[index]}, ${text}: ${(point * by).toFixed(0)} FLOP/byte`),
        keys: OPERATORS,
      });
    return {
      blocks: [], key: "roofline", title: "Attainable FLOP/s by intensity", note: "Area: share of the time.",
      x: { title: "arithmetic intensity", scale: "log", low: null, high: null, unit: "FLOP/byte" },
      y: { title: "rate", scale: "log", low: null, high: null, unit: "FLOP/s" },
      series: [
        series({ name: "bf16", kind: "line", role: "roof", x: [1, 153, 10000], y: [2.04e10, 312e10, 312e10] }),
        dots("decode", "decode", 1),
        dots("prefill", "prefill", 4),
      ],
      marks: [], zones: [],
      table: {
        key: "points", title: "Intensity by operator", note: "",
        columns: [column("operator", false), column("decode, FLOP/byte", true), column("prefill, FLOP/byte", true)],
        rows: points.map((point, index) => [word(OPERATORS[index]), count(point), count(point * 4)]),
      },
    };
  }

  function bars(times) {
    const before = times.map((_, index) => times.slice(0, index).reduce((sum, time) => sum + time, 0));
    return {
      blocks: [], key: "time", title: "Where the time goes", note: "One operator after the other.",
      x: { title: "time", scale: "linear", low: 0, high: null, unit: "s" },
      y: { title: "", scale: "category", low: null, high: null, unit: "" },
      series: [
        series({
          name: "memory", kind: "bars", role: "memory", x: times.map((time) => time / 1e3), y: OPERATORS,
          base: before.map((time) => time / 1e3), keys: OPERATORS,
          labels: times.map((time, index) => `${OPERATORS[index]}: ${time.toFixed(3)} ms`),
        }),
      ],
      marks: [], zones: [],
      table: {
        key: "times", title: "Time by operator", note: "",
        columns: [column("operator", false), column("time, ms", true)],
        rows: times.map((time, index) => [word(OPERATORS[index]), cell(time.toFixed(3), time / 1e3)]),
      },
    };
  }

  function heat(batch, prompt) {
    const batches = [1, batch + 1, 4 * batch];
    const z = batches.map((size) => TOKENS.map((tokens) => size * tokens + prompt));
    const texts = z.map((row) => row.map((value) => value.toFixed(0)));
    return {
      blocks: [], key: "grid", title: "Tokens by batch and prompt", note: "",
      x: { title: "prompt", scale: "category", low: null, high: null, unit: "" },
      y: { title: "batch", scale: "category", low: null, high: null, unit: "" },
      series: [
        series({
          name: "tokens", kind: "heat", role: "estimate", x: TOKENS.map(String), y: batches.map(String), z, texts,
          hatched: z.map((row) => row.map((value) => value > LIMIT)), hatched_name: "does not fit",
        }),
      ],
      marks: [], zones: [],
      table: {
        key: "tokens", title: "Tokens, batch by prompt", note: "",
        columns: [column("batch", true), ...TOKENS.map((tokens) => column(`${tokens} tokens`, true))],
        rows: batches.map((size, row) => [count(size), ...z[row].map((value, index) => cell(texts[row][index], value))]),
      },
    };
  }

  function wide(batch) {
    const numbers = [...Array(12).keys()];
    return {
      key: "wide", title: "A wide table", note: "It scrolls in a box of its own.",
      columns: [column("operator", false), ...numbers.map((index) => column(`a column of numbers, ${index}`, true))],
      rows: OPERATORS.map((operator, row) => [
        word(operator), ...numbers.map((index) => count((row + 1) * (index + 1) * batch * 1000)),
      ]),
    };
  }

  function view(state) {
    const { batch, input_len: prompt, weights, title, measured } = state;
    if (batch === 4095) throw new Error("4095 sequences are refused <b>here</b>");
    const fits = batch * prompt <= LIMIT;
    const note = title ? `, ${title}` : "";
    return {
      title: `${name} on A100 SXM 80 GB${note}`,
      subtitle: `8.03 B parameters · 32 layers · ${weights} weights · vLLM 0.19`,
      answer: [
        `${fits ? "Fits" : "Does not fit"}: ${batch} sequences of ${prompt} tokens.`,
        "A decode step is bound by memory: weights cross the memory bus, 2 FLOP/byte against a ridge of 153.",
      ],
      fits, error: "", verdict: `${batch} sequences of ${prompt} tokens ${fits ? "fit" : "do not fit"}.`,
      tiles: [
        { label: "Tokens", meaning: "in a step", cell: count(batch * prompt), note: "batch times prompt", parts: [],
          gauge: { role: "tpot", low: 0.3, high: 0.7, value: 0.1 + 0.2, bound: batch / 8192 } },
        { label: "Batch", meaning: "", cell: count(batch), note: "", gauge: null,
          parts: [
            { name: "weights", role: "weights", start: 0, length: 0.25 }, { name: "KV", role: "kv", start: 0.25, length: 0.1 },
          ] },
        { label: "Bound by", meaning: "", cell: word(batch < 153 ? "memory" : "compute"), note: "decode", gauge: null, parts: [] },
        { label: "Half a prompt", meaning: "", cell: cell(`${Math.floor(prompt / 2)} tokens`, prompt / 2),
          note: "8 of 10 measurements", gauge: null, parts: [] },
      ],
      commands: [
        { label: "vLLM", text: `vllm serve meta-llama/Llama-3.1-8B --max-num-seqs ${batch} --max-model-len ${prompt}`, repeats: false },
      ],
      sections: [
        { key: "roofline", title: "Roofline", note: "A point is an operator.",
          figure: roofline(OPERATORS.map((_, index) => (index + 1) * batch)), tables: [wide(batch)], half: false, folded: false },
        { key: "time", title: "Time", note: "",
          figure: bars(OPERATORS.map((_, index) => ((index + 1) * prompt) / 1024)), tables: [], half: true, folded: false },
        { key: "grid", title: "Batch by prompt", note: "Hatched: does not fit.", figure: heat(batch, prompt), tables: [], half: false,
          folded: false },
        { key: "inputs", title: "Inputs", note: "", figure: null, half: false, folded: true,
          tables: [{
            key: "inputs", title: "What went in", note: "",
            columns: [column("input", false), column("value", false)],
            rows: [
              [word("model"), word(name)], [word("weights"), word(weights)],
              [word("efficiencies"), word(measured ? "fitted" : "none")],
            ],
          }] },
      ],
      assumptions: {
        key: "assumptions", title: "What was assumed", note: "given: by you; default: by the program",
        columns: [column("what", false), column("value", true), column("by", false)],
        rows: [[word("block size"), count(16), word("default")], [word("batch"), count(batch), word("given")]],
      },
      defaults: [],
      not_modelled: ["The time of the host between steps.", "Sampling other than greedy."],
    };
  }

  /** As little of a plot as shows that the page draws it: colours and axes of its own kind are no matter here. */
  function plot({ x, y, series: all }, dark) {
    const ink = dark ? "#e6e9ed" : "#1f2328";
    const axis = ({ title, scale }) => ({ title: { text: title }, type: scale, automargin: true, exponentformat: "SI" });
    const plotted = all.map((one) => {
      const shared = { name: one.name, x: one.x, y: one.y, customdata: one.keys, hoverinfo: "text" };
      if (one.kind === "heat") return { ...shared, type: "heatmap", z: one.z, hovertext: one.texts, colorbar: { title: { text: "" } } };
      if (one.kind === "bars") return { ...shared, type: "bar", orientation: "h", base: one.base, hovertext: one.labels };
      if (one.kind === "line") return { ...shared, type: "scatter", mode: "lines", hoverinfo: "skip" };
      return { ...shared, type: "scatter", mode: "markers", hovertext: one.labels };
    });
    return {
      data: plotted,
      layout: { height: HEIGHT, xaxis: axis(x), yaxis: axis(y), paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink } },
    };
  }

  const HEIGHT = 360;
  const height = () => HEIGHT;

  /** A picture that says of what it is, in its title. */
  function picture({ key, series: all }, width) {
    const safe = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
    const [{ x, z }] = all;
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${HEIGHT}" width="100%" class="figure-svg" role="img" `
      + `aria-labelledby="${key}-title"><title id="${key}-title">${safe(JSON.stringify(z.length ? z : x))}</title>`
      + `<g class="f-blue"><rect width="${width}" height="40" class="f-bar"/></g></svg>`;
  }

  function csv({ sections }) {
    const lines = sections.flatMap(({ figure }) => (figure ? figure.table.rows.map((row) => row.map(({ text }) => text).join(",")) : []));
    return `${lines.join("\n")}\n`;
  }

  const load = (data) => {
    name = data.name;
  };
  return { load, view, plot, picture, height, csv };
})();
