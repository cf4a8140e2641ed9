// Draws Mermaid sources as SVG in a real browser: node render.mjs NODE_MODULES FOLDER NAME...
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, folder, ...names] = process.argv.slice(2);
const require = createRequire(join(modules, "none.js"));
const load = async (name) => (await import(pathToFileURL(require.resolve(name)).href)).default;
const chromium = await load("@sparticuz/chromium");
const puppeteer = await load("puppeteer-core");
const browser = await puppeteer.launch({
  args: chromium.args,
  executablePath: await chromium.executablePath(),
  headless: "shell",
});
try {
  const page = await browser.newPage();
  await page.addScriptTag({ path: join(modules, "mermaid", "dist", "mermaid.min.js") });
  for (const name of names) {
    const source = readFileSync(join(folder, `${name}.mmd`), "utf8");
    const svg = await page.evaluate(
      async (id, text) => {
        mermaid.initialize({
          startOnLoad: false,
          deterministicIds: true,
          htmlLabels: false,
          flowchart: { htmlLabels: false },
          fontFamily: "sans-serif",
          theme: "neutral",
        });
        const { svg } = await mermaid.render(id, text);
        const holder = document.createElement("div");
        holder.innerHTML = svg;
        const drawn = holder.querySelector("svg");
        const [, , width, height] = drawn.getAttribute("viewBox").split(" ");
        drawn.setAttribute("width", Math.ceil(width));
        drawn.setAttribute("height", Math.ceil(height));
        drawn.style.backgroundColor = "white";
        return new XMLSerializer().serializeToString(drawn);
      },
      `picture-${name}`,
      source,
    );
    writeFileSync(join(folder, `${name}.svg`), svg);
  }
} finally {
  await browser.close();
}
