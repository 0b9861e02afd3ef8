"use strict";
// What the page's script calls: the translated program, its data, and plain objects in and out.
const model = (() => {
  let given = {};
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
