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
    /** The view in parts: its head, and its sections by key and its sentences, each made when it is asked for. Null where it is made at once. */
    parts: program.solved
      ? (state) => {
          const solved = program.solved(values(state));
          const section = (key) => program.section_of(solved, key);
          return { head: program.head(solved), keys: program.section_keys(solved), section, words: () => program.words(solved) };
        }
      : null,
    plot: (figure, dark, width) => plain(program.plot(figure, dark, width)),
    picture: (figure, width) => program.svg(figure, width),
    height: (figure, width) => program.plot_height(figure, width),
    csv: (view) => program.csv(view),
  };
})();
