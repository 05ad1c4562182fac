// Figures of the charts of pages, side by side: node charts.mjs CHROMIUM FOLDER PAGE... prints a line of JSON for each
// page, and writes pictures to FOLDER. `letters` are the smallest ones on a telephone, in pixels; `light` is how bright
// the charts are in the dark, from 0 to 1; `serious` is what axe finds.
import { serious } from "./axe.mjs";
import { chromium } from "playwright-core";
import { basename, join, resolve } from "node:path";

const [executablePath, folder, ...pages] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const letters = () => Math.min(...[...document.querySelectorAll("figure *")]
  .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== ""))
  .filter((one) => one.getBoundingClientRect().width > 0)
  .map((one) => parseFloat(getComputedStyle(one).fontSize) * (one.getScreenCTM?.().a ?? 1)));
const brightness = async (picture) => {
  const image = new Image();
  image.src = `data:image/png;base64,${picture}`;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const { data } = canvas.getImageData(0, 0, image.width, image.height);
  let sum = 0;
  for (let at = 0; at < data.length; at += 4) sum += data[at] + data[at + 1] + data[at + 2];
  return sum / (data.length / 4) / 3 / 255;
};
for (const path of pages) {
  const name = basename(path, ".html");
  const open = async (width, colorScheme) => {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, bypassCSP: true });
    const page = await context.newPage();
    await page.goto(`file://${resolve(path)}`);
    return page;
  };
  const phone = await open(360, "light");
  await phone.screenshot({ path: join(folder, `${name}.charts-phone.png`), fullPage: true });
  const smallest = await phone.evaluate(letters);
  const dark = await open(1280, "dark");
  await dark.screenshot({ path: join(folder, `${name}.charts-dark.png`), fullPage: true });
  const lights = [];
  for (const figure of await dark.locator("figure").all()) {
    lights.push(await dark.evaluate(brightness, (await figure.screenshot()).toString("base64")));
  }
  const light = lights.reduce((sum, one) => sum + one, 0) / lights.length;
  console.log(JSON.stringify({ letters: smallest, light, serious: (await serious(dark)).length }));
  for (const page of [phone, dark]) await page.context().close();
}
await browser.close();
