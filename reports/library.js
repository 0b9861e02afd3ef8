"use strict";
// What Python reads from files, a page holds as data: the specs by name, under the functions that load them.
const library = (() => {
  let data = {}, made = new Map();
  const once = (key, make) => {
    if (!made.has(key)) made.set(key, make());
    return made.get(key);
  };
  const named = (kind, name) => {
    const found = data[kind]?.[name];
    if (found === undefined) $.fail(`${name} is not on this page`);
    return once(`${kind}/${name}`, () => $.revive(found));
  };
  const input = (role, name) => ({ role, name, path: "page", sha256: "" });
  const path = (text) => (typeof text === "object" ? text : { stem: text.split("/")[1].replace(/\.yaml$/, ""), text });
  return {
    fill: (given) => {
      [data, made] = [given, new Map()];
    },
    ids: (kind) => Object.keys(data[kind]).sort(),
    load_model: (name) => [named("models", name), input("model", name)],
    load_hardware: (name) => [named("hardware", name), [input("hardware", name)]],
    load_engine: (name) => [named("engines", name), input("engine", name)],
    load_engine_steps: (names) => {
      const found = $.list(names).find((name) => data.steps[name] !== undefined);
      return found === undefined ? null : [named("steps", found), input("engine steps", found)];
    },
    load_prior: () => [once("prior", () => $.revive(data.prior)), input("fit prior", "prior")],
    measured_engines: () => Object.keys(data.steps).sort(),
    load_spread: () => once("spread", () => $.revive(data.spread)),
    fit_files: () =>
      once("files", () => {
        const found = new $.Dict();
        for (const name of Object.keys(data.fits).sort()) {
          const [accelerator] = name.split("/");
          if (!found.has(accelerator)) found.set(accelerator, []);
          found.get(accelerator).push(once(`path/${name}`, () => path(`${name}.yaml`)));
        }
        return found;
      }),
    load_fit: (file) => {
      const name = file.text.replace(/\.yaml$/, "");
      return [named("fits", name), input(`fit ${name}`, name)];
    },
    // Which families a file names, without making all of it.
    read_text: (file) => Object.keys(data.fits[file.text.replace(/\.yaml$/, "")].families.$o).join("\n"),
    path,
  };
})();
