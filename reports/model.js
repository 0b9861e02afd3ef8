"use strict";
// What the page's script calls: the translated program, its data, and plain objects in and out.
const model = (() => {
  let given = {};
  const values = (state) => dict({ ...given.values, ...state, fixed: dict(given.values.fixed) });
  return {
    load: (data) => {
      given = data;
      library.fill(data.specs);
    },
    view: (state) => program.view(values(state)),
    /** The view in parts: its head, and its sections by key, each made when it is asked for. Null where it is made at once. */
    parts: program.solved
      ? (state) => {
          const solved = program.solved(values(state));
          return { head: program.head(solved), keys: program.section_keys(solved), section: (key) => program.section_of(solved, key) };
        }
      : null,
    plot: (figure, dark, width) => plain(program.plot(figure, dark, width)),
    csv: (view) => program.csv(view),
  };
})();
