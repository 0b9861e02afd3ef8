"use strict";
// Views of states, made in parts: first the head (title, tiles, commands), then the sections in view with pictures of their
// figures, then what plotly is to draw of these, sentences, and the other sections. A newer state stops an older one between two parts. It runs in a worker, or in the page itself where none can be made.
const computing = (model, post) => {
  const PATIENCE = 100; // ms without a section, after which those in view come before the head of a newer state
  const { port1, port2 } = new MessageChannel();
  let asked = null;
  let isRunning = false;
  let since = -Infinity; // when the sections in view were last made
  let go = null;
  port1.onmessage = () => go();
  // what has arrived in the meantime is read
  const pause = () =>
    new Promise((resolve) => {
      go = resolve;
      port2.postMessage(null);
    });

  /** The parts of a view: those that the model makes one by one, or all at once. */
  function partsOf(state) {
    if (model.parts) return model.parts(state);
    const { sections, ...rest } = model.view(state);
    const section = (key) => sections.find((one) => one.key === key);
    return { head: { ...rest, sections: [] }, keys: sections.map(({ key }) => key), section, words: () => rest.answer };
  }

  /** All of it, or the reason why there is none. */
  function whole(state) {
    try {
      const view = model.view(state);
      return { view, error: view.error };
    } catch (error) {
      return { view: null, error: error.message || String(error) };
    }
  }

  /** What the page shows of a figure: its picture, and what plotly draws of it; null of a section without, or of an unknown width. */
  function picture({ widths }, { figure }) {
    const width = figure ? widths[figure.key] : 0;
    return width ? { width, height: model.height(figure, width), svg: model.picture(figure, width) } : null;
  }

  function plot({ dark, widths }, { figure }) {
    const width = figure ? widths[figure.key] : 0;
    return width ? { width, dark, made: model.plot(figure, dark, width) } : null;
  }

  async function answer(request) {
    const { id, state, first, pinned } = request;
    const parts = partsOf(state);
    post({ id, head: parts.head, keys: parts.keys });
    await pause();
    const inView = first.filter((key) => parts.keys.includes(key)), sections = [];
    for (const key of inView) {
      if (asked && performance.now() - since <= PATIENCE) return;
      const section = parts.section(key);
      sections.push(section);
      post({ id, section, picture: picture(request, section) });
      if (key === inView.at(-1)) since = performance.now();
      await pause();
    }
    for (const section of sections) {
      if (asked) return;
      post({ id, key: section.key, plot: plot(request, section) });
      await pause();
    }
    if (asked) return;
    post({ id, words: parts.words() });
    await pause();
    for (const key of parts.keys.filter((key) => !first.includes(key))) {
      if (asked) return;
      const section = parts.section(key);
      post({ id, section, plot: plot(request, section) });
      await pause();
    }
    if (pinned) post({ id, pinned: whole(pinned) });
    post({ id, isDone: true });
  }

  async function run() {
    isRunning = true;
    while (asked) {
      const request = asked;
      asked = null;
      try {
        await answer(request);
      } catch (error) {
        post({ id: request.id, error: error.message || String(error), pinned: request.pinned ? whole(request.pinned) : null });
      }
      await pause();
    }
    isRunning = false;
  }

  return {
    /** `{id, state, first, dark, widths, pinned}`: `first` are keys of sections in view, `pinned` a state to compare with, or null. */
    ask(request) {
      asked = request;
      if (!isRunning) run();
    },
  };
};

if (typeof document === "undefined") {
  const answers = computing(model, (message) => postMessage(message));
  onmessage = ({ data }) => {
    if (data.load) model.load(data.load);
    else answers.ask(data);
  };
}
