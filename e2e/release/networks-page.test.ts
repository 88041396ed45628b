import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { networksPage } from "#cli/inspect/networks/page.ts";
import { repositoryRoot } from "../support/paths.ts";
import { Browser } from "./browser.ts";

const made = "2026-11-29T12:00:00Z";
const evil =
  '</script><img src=x onerror="globalThis.injected = true"><script>injected = true</script>';
const lacks = (link: string) => `the node has no link "${link}", also not as an alternative name`;

const small = {
  made,
  networks: [
    {
      network: "shop/lan",
      pods: 2,
      nodes: ["n1", "n2", "n3"].map((node) => ({ node, usable: true })),
    },
    {
      network: "shop/storage",
      pods: 1,
      nodes: [
        { node: "n1", usable: false, details: lacks("br-trunk") },
        { node: "n2", usable: true },
        { node: "n3", usable: true },
      ],
    },
    {
      network: "shop/old",
      pods: 0,
      nodes: ["n1", "n2", "n3"].map((node) => ({ node, usable: false, details: lacks("eth7") })),
    },
  ],
  unanswered: [{ node: "n4", reason: "the kubelet of node n4 does not report" }],
  rows: [
    ["shop/lan", "shop/web-1", "net1", "10.61.0.2,fd61::2", "02:00:00:00:00:02", "n1", made],
    ["shop/lan", "shop/web-2", "net1", "10.61.0.3,fd61::3", "02:00:00:00:00:03", "n2", made],
    ["shop/storage", "shop/db-0", "net1", "10.62.0.2", "02:00:00:00:00:04", "n2", made],
  ],
};

test("the page of networks shows problems first, then networks on nodes, then pods, and searches", async () => {
  const browser = await opened(small);
  const lines = await browser.value<string[]>("document.body.innerText.split(/\\n+/)");
  const at = ["Problems", "Where networks can be used", "Who is in them"].map((heading) =>
    lines.indexOf(heading),
  );
  expect(at).toEqual(at.toSorted((a, b) => a - b));
  expect(await cellsOf(browser, "#problems")).toEqual([
    ["n4", "does not answer", "the kubelet of node n4 does not report"],
    ["shop/old", "no node", `n1, n2, n3: ${lacks("eth7")}`],
    ["shop/storage", "only 2 of 3 nodes", `n1: ${lacks("br-trunk")}`],
  ]);
  expect(await cellsOf(browser, "#matrix")).toEqual([
    ["shop/lan", "yes", "yes"],
    ["shop/storage", "no", "yes"],
    ["shop/old", "no", "no"],
  ]);
  for (const [word, pod] of [
    ["FD61::3", "shop/web-2"],
    ["02:00:00:00:00:04", "shop/db-0"],
    ["web-1", "shop/web-1"],
  ]) {
    await search(browser, word ?? "");
    expect((await cellsOf(browser, "#found")).map(([, each]) => each)).toEqual([pod]);
  }
  await search(browser, "");
  expect(await cellsOf(browser, "#found")).toEqual([]);
  // As the keyboard does: Tab reaches the summary, Enter opens it.
  await browser.value("document.querySelector('#pods summary').click()");
  await browser.waitFor("document.querySelectorAll('#pods tbody tr').length === 2");
  expect(browser.problems).toEqual([]);
  if (process.env.WRITE !== undefined) await picture(browser);
});

test.each([
  ["light", "rgb(0, 0, 0)"],
  ["dark", "rgb(255, 255, 255)"],
])("the page is %s where the browser is", async (value, color) => {
  const browser = await opened(small);
  const features = [{ name: "prefers-color-scheme", value }];
  await browser.send("Emulation.setEmulatedMedia", { features });
  expect(await browser.value("getComputedStyle(document.body).color")).toBe(color);
});

test("nothing that pods, definitions and nodes contain is more than text [S-310]", async () => {
  const networks = [{ network: evil, nodes: [{ node: evil, usable: false, details: evil }] }];
  const browser = await opened({
    made: evil,
    networks,
    unanswered: [{ node: evil, reason: evil }],
    rows: [[evil, evil, evil, evil, evil, evil, evil]],
  });
  await search(browser, "onerror");
  await browser.value("document.querySelector('#pods summary').click()");
  await browser.waitFor("document.querySelectorAll('#pods tbody tr').length === 1");
  expect(await browser.value("typeof globalThis.injected")).toBe("undefined");
  expect(await browser.value("document.images.length + document.scripts.length")).toBe(2);
  expect(await cellsOf(browser, "#found")).toEqual([Array(7).fill(evil)]);
  expect(browser.problems).toEqual([]);
});

test("5,000 pods in 200 networks on 500 nodes are a page of few elements, in which a search finds each", async () => {
  const nodes = Array.from({ length: 500 }, (_, i) => `node-${i}`);
  const networks = Array.from({ length: 200 }, (_, i) => ({
    network: `shop/net-${i}`,
    nodes: nodes.map((node, at) =>
      at % 7 === i % 7
        ? { node, usable: false, details: lacks(`br-${i}`) }
        : { node, usable: true },
    ),
  }));
  const rows = Array.from({ length: 5000 }, (_, i) => {
    const address = `10.61.${i >> 8}.${i & 255}`;
    return [`shop/net-${i % 200}`, `shop/pod-${i}`, "net1", address, "", `node-${i % 500}`, made];
  });
  const browser = await opened({ made, networks, unanswered: [], rows });
  // What makes it quick: the pods of a network become elements when it is opened.
  expect(await browser.value("document.querySelectorAll('*').length")).toBeLessThan(5000);
  expect(await browser.value("document.querySelectorAll('#matrix tbody tr').length")).toBe(200);
  await search(browser, "pod-4999");
  expect(await cellsOf(browser, "#found")).toHaveLength(1);
  expect(browser.problems).toEqual([]);
});

test("150,000 names of networks that pods have invented hide nothing else", async () => {
  const invented = Array.from({ length: 150_000 }, (_, i) => [
    ...[`x/net-${i}`, "x/pod", "net1", "", "", "n1", made],
  ]);
  const browser = await opened({ ...small, rows: [...small.rows, ...invented] });
  const lines = await browser.value<string[]>("document.body.innerText.split(/\\n+/)");
  expect(lines).toContain("shop/lan: 2 pods, 3 of 3 nodes");
  expect(lines).toContain("149800 further networks without a definition are not shown, but found.");
  expect(await browser.value("document.querySelectorAll('#pods details').length")).toBe(203);
  await search(browser, "net-149999");
  expect((await cellsOf(browser, "#found")).map(([network]) => network)).toEqual(["x/net-149999"]);
  expect(browser.problems).toEqual([]);
});

/** The page with this data, in a browser. */
async function opened(data: object): Promise<Browser> {
  const work = await mkdtempDisposable(join(tmpdir(), "plexus-page-"));
  onTestFinished(() => work.remove());
  const file = join(work.path, "networks.html");
  const text = JSON.stringify(data).replaceAll("<", "\\u003c");
  await writeFile(
    file,
    networksPage().replace("@DATA@", () => text),
  );
  const browser = await Browser.start(work.path);
  onTestFinished(() => browser[Symbol.asyncDispose]());
  await browser.open(`file://${file}`);
  await browser.waitFor("performance.getEntriesByType('navigation')[0].loadEventEnd > 0");
  return browser;
}

async function search(browser: Browser, word: string): Promise<void> {
  await browser.value(
    `{ const search = document.getElementById("search"); search.value = ${JSON.stringify(word)};
       search.dispatchEvent(new Event("input")); }`,
  );
}

/** The texts of the rows of a table. */
function cellsOf(browser: Browser, section: string): Promise<string[][]> {
  return browser.value(
    `Array.from(document.querySelectorAll("${section} tbody tr"), (row) =>
       Array.from(row.cells, (cell) => cell.textContent))`,
  );
}

/** The picture of the page about troubleshooting. */
async function picture(browser: Browser): Promise<void> {
  await browser.send("Emulation.setDeviceMetricsOverride", {
    ...{ width: 900, height: 820, deviceScaleFactor: 1, mobile: false },
  });
  const { data } = await browser.send("Page.captureScreenshot");
  const path = join(repositoryRoot, "docs/operations/networks.png");
  await writeFile(path, Buffer.from(String(data), "base64"));
}
