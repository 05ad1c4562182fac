// Looks at pages that verisum wrote, in Chromium: wide, as wide as a telephone, in the dark and printed.
// node look.mjs CHROMIUM FOLDER PAGE...: writes pictures to FOLDER, and fails for what axe finds serious, for a page
// that is wider than its window, and for requests.
import { serious } from "./axe.mjs";
import { chromium } from "playwright-core";
import { basename, join, resolve } from "node:path";

const [executablePath, folder, ...pages] = process.argv.slice(2);
const VIEWS = [
  { name: "wide", width: 1280, colorScheme: "light" },
  { name: "desk", width: 1400, colorScheme: "light" },
  { name: "phone", width: 360, colorScheme: "light" },
  { name: "dark", width: 1280, colorScheme: "dark" },
];
const found = [];
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
for (const path of pages) {
  const name = basename(path, ".html");
  for (const { name: view, width, colorScheme } of VIEWS) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, bypassCSP: true });
    const page = await context.newPage();
    page.on("request", (request) => {
      if (!request.url().startsWith("file:") && !request.url().startsWith("data:")) {
        found.push(`${name}, ${view}: asks for ${request.url()}`);
      }
    });
    page.on("console", (message) => found.push(`${name}, ${view}: says ${message.text()}`));
    await page.goto(`file://${resolve(path)}`);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (over > 0) found.push(`${name}, ${view}: ${over} pixels wider than the window`);
    const cut = await page.evaluate(() =>
      [...document.querySelectorAll("h1, h2, p, th, td")]
        .filter((one) => getComputedStyle(one).overflowX !== "auto" && one.scrollWidth > one.clientWidth + 1)
        .map((one) => one.textContent.slice(0, 60)));
    cut.forEach((text) => found.push(`${name}, ${view}: cut: ${text}`));
    const hidden = await page.evaluate(() =>
      [...document.querySelectorAll(".wide")]
        .filter((one) => one.scrollWidth > one.clientWidth)
        .map((one) => `${one.getAttribute("aria-label")}: ${one.scrollWidth - one.clientWidth}`));
    hidden.forEach((text) => found.push(`${name}, ${view}: pixels beyond the edge: ${text}`));
    // A command is for copying: it is seen whole, and no option of it is broken.
    const lost = await page.evaluate(() =>
      [...document.querySelectorAll("code")]
        .filter((code) => code.getBoundingClientRect().right > innerWidth ||
          [...code.children].some((word) => word.textContent.startsWith("-") && word.offsetHeight > 30))
        .map((code) => code.textContent.slice(0, 60)));
    lost.forEach((text) => found.push(`${name}, ${view}: a command is cut or broken: ${text}`));
    for (const problem of await serious(page)) {
      const where = problem.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3).join(" | ");
      found.push(`${name}, ${view}: axe, ${problem.impact}: ${problem.help}: ${where}`);
    }
    await page.screenshot({ path: join(folder, `${name}.${view}.png`), fullPage: true });
    if (view === "wide") await page.pdf({ path: join(folder, `${name}.pdf`), format: "A4", printBackground: false });
    await context.close();
  }
}
await browser.close();
found.forEach((line) => console.log(line));
process.exitCode = found.length === 0 ? 0 : 1;
