"use strict";
// What the page's script calls on pages whose numbers are there already: the translated program, and the result as data.
const model = (() => {
  let page = null;
  return {
    load: (data) => {
      page = $.lazy(() => $.revive(data.page));
    },
    view: (state) => program.view(page(), dict(state)),
    plot: (figure, dark, width) => plain(program.plot(figure, dark, width)),
    picture: (figure, width) => program.svg(figure, width),
    height: (figure, width) => program.plot_height(figure, width),
    csv: (view) => program.csv(view),
  };
})();
