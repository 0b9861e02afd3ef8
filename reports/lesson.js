"use strict";
// What the script of a lesson's page calls: the translated program, the specs as data, and plain objects in and out.
const model = (() => {
  let given = {};
  return {
    load: (data) => {
      given = data;
      library.fill(data.specs);
    },
    view: (state) => plain(program.live_view(dict({ ...given.values, ...state }), dict(given.block))),
    judge: (key, text) => plain(program.judge({ ...key, mistakes: key.mistakes }, text)),
  };
})();
