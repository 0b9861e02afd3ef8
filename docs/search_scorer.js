// How the search of the site ranks pages: Sphinx puts this into its own script (html_search_scorer).
// What a page is called says most; records of how the project came to be come after what explains it.
var Scorer = {
  score: ([docname, title, anchor, , score]) => {
    const words = (text) => text.toLowerCase().split(/[^a-z0-9]+/).filter(Boolean);
    const query = words(new URLSearchParams(location.search).get("q") ?? "");
    const named = words(title);
    // "calculator" is in "Calculators", "modelled" in "modeled"
    const isAlike = (word, other) => other === word || other.startsWith(word) || (word.length > 4 && other.startsWith(word.slice(0, 5)));
    const isNamed = query.length > 0 && query.every((word) => named.some((other) => isAlike(word, other)));
    const isHistory = /^(_generated\/)?decisions\/|^_generated\/project\/(changelog|contributing)/.test(docname);
    return (isHistory ? score / 4 : score) + (isNamed && !isHistory ? (anchor ? 10 : 30) : 0);
  },
  // as in Sphinx
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
