"use strict";
// What the page's script calls on the page of a plan: the translated program, and the plan as data.
const model = (() => {
  let planned = null;
  return {
    load: (data) => {
      planned = $.revive(data.planned);
    },
    view: (state) => program.view(planned, dict(state)),
    plot: (figure, dark, narrow) => plain(program.plot(figure, dark, narrow)),
    csv: (view) => program.csv(view),
  };
})();
