"use strict";
// What the script of a lesson's page calls: the translated program, the specs as data, and plain objects in and out.
const model = (() => {
  let given = {};
  return {
    load: (data) => {
      given = data;
      library.fill(data.specs);
    },
    shown: (state) => plain(program.shown(dict({ ...given.values, ...state }), dict(given.block))),
    judge: (asked, text) => plain(program.judge({ ...asked, mistakes: asked.mistakes }, text)),
  };
})();
