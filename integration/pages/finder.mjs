// Runs the search of the built site as its pages do: the theme's own worker over the site's index.
// node finder.mjs SITE   reads one query a line and writes, for each, the pages found, best first.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { runInThisContext } from "node:vm";

const site = process.argv[2];
const workers = join(site, "assets/javascripts/workers");
const file = readdirSync(workers).find((name) => /^search\..*\.js$/.test(name));
const { config, docs } = JSON.parse(readFileSync(join(site, "search/search_index.json"), "utf8"));

let heard, answered;
globalThis.self = globalThis;
globalThis.addEventListener = (_, listener) => (heard = listener);
globalThis.postMessage = (message) => answered(message);
runInThisContext(readFileSync(join(workers, file), "utf8"));

function asked(message) {
  return new Promise((resolve) => {
    answered = resolve;
    heard({ data: message });
  });
}

await asked({ type: 0, data: { config, docs, options: { suggest: true } } });
for await (const query of createInterface({ input: process.stdin })) {
  const { data } = await asked({ type: 2, data: query });
  const pages = data.items.map(([first]) => first.location.split("#")[0]);
  process.stdout.write(JSON.stringify(pages) + "\n");
}
