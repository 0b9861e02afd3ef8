"use strict";
// What the page's script calls on the page of a simulation: the translated program, and what was simulated as data.
const model = (() => {
  let told = null;
  return {
    load: (data) => {
      told = $.revive(data.told);
    },
    view: (state) => program.view(told, dict(state)),
    plot: (figure, dark, narrow) => plain(program.plot(figure, dark, narrow)),
    csv: (view) => program.csv(view),
  };
})();
