// Who computes what the page shows: a worker, so that nothing waits for it; the page itself, part by part, where there is none.

/** `program` is the text that defines `model` and `computing`; answers go to `receive`. Gives a function that asks. */
function makeWorker(program, data, receive) {
  let last = null;
  let worker = null;
  let answers = null;

  function here() {
    worker?.terminate();
    worker = null;
    answers = computing(model, receive);
    if (last) answers.ask(last);
  }

  try {
    const url = URL.createObjectURL(new Blob([program], { type: "text/javascript" }));
    worker = new Worker(url);
    worker.onmessage = (event) => receive(event.data);
    worker.onerror = (event) => {
      event.preventDefault(); // it could not be started
      here();
    };
    worker.postMessage({ load: data });
  } catch {
    here();
  }
  return (request) => {
    last = request;
    if (worker) worker.postMessage(request);
    else answers.ask(request);
  };
}
