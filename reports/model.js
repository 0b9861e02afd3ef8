"use strict";
// What the page's script calls: the translated program, its data, and plain objects in and out.
const model = (() => {
  let given = {};
  const plain = (value) => {
    if (value === undefined) return null;
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map(plain);
    if (value instanceof $.Dict) return Object.fromEntries(value.pairs().map(([key, its]) => [key, plain(its)]));
    return value;
  };
  const dict = (entries) => new $.Dict(Object.entries(entries));
  return {
    load: (data) => {
      given = data;
      library.fill(data.specs);
    },
    view: (state) => program.view(dict({ ...given.values, ...state, fixed: dict(given.values.fixed) })),
    plot: (figure, dark, narrow) => plain(program.plot(figure, dark, narrow)),
    csv: (view) => program.csv(view),
  };
})();
