import { existsSync, globSync } from "node:fs";
import { mkdtempDisposable, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { execa } from "execa";
import { beforeAll, expect, test } from "vitest";
import { repository } from "../../scripts/release/repository.ts";
import { repositoryRoot } from "../support/paths.ts";
import { Browser } from "./browser.ts";

const base = "/plexus/";
const site = join(repositoryRoot, "dist/site");
const types: Readonly<Record<string, string>> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".png": "image/png",
};

beforeAll(async () => {
  await execa("make", ["docs", `SITE=${base}`], { cwd: repositoryRoot });
});

test("TypeScript accepts the site's configuration and theme", async () => {
  const flags = ["--project", "docs/.vitepress"];
  const { stdout, exitCode } = await execa("tsc", flags, {
    cwd: repositoryRoot,
    preferLocal: true,
    reject: false,
  });
  expect([exitCode, stdout]).toEqual([0, ""]);
});

test("every link of the site leads to a page and a place on it, or to a file of the repository", async () => {
  const pages = globSync("**/*.html", { cwd: site });
  const texts = new Map<string, string>();
  for (const page of pages) texts.set(page, await readFile(join(site, page), "utf8"));
  const leadsSomewhere = (page: string, link: string): boolean => {
    const { href, origin, pathname, hash } = new URL(link, `http://site${base}${page}`);
    const inRepository = new RegExp(`^${repository}/(?:blob|tree|edit)/main/([^#]*)`).exec(href);
    if (inRepository !== null) return existsSync(join(repositoryRoot, inRepository[1] ?? ""));
    if (origin !== "http://site") return true;
    if (!pathname.startsWith(base)) return false;
    const target = pathname === base ? "index.html" : pathname.slice(base.length);
    const id = decodeURIComponent(hash.slice(1));
    return (
      existsSync(join(site, target)) &&
      (id === "" || texts.get(target)?.includes(`id="${id}"`) === true)
    );
  };
  const links = [...texts].flatMap(([page, text]) => {
    const found = text.matchAll(/ (?:href|src)="([^"]*)"/g);
    return Array.from(found, ([, link = ""]) => [page, link.replaceAll("&amp;", "&")] as const);
  });
  expect(links.length).toBeGreaterThan(1000);
  expect(links.filter(([page, link]) => !leadsSomewhere(page, link))).toEqual([]);
});

test("in Chromium, the search finds a page, whose edit link names its file; diagrams are drawn; nothing fails", async () => {
  await using server = await serve();
  await using directory = await mkdtempDisposable(join(tmpdir(), "plexus-chromium-"));
  await using browser = await Browser.start(directory.path);
  await browser.open(server.url);
  // The button is on the page before the script that listens to it.
  await browser.waitFor(`
    document.querySelector("#localsearch-input") ?? document.querySelector(".DocSearch-Button").click();
    document.activeElement?.id === "localsearch-input"`);
  await browser.send("Input.insertText", { text: "Networks for running pods" });
  const first = `document.querySelector(".result[href*='user/hot-plug.html']")`;
  await browser.waitFor(`${first} !== null`);
  await browser.value(`${first}.click()`);
  await browser.waitFor(
    `document.querySelector("h1")?.innerText.startsWith("Networks for running")`,
  );
  const edit = await browser.value(`document.querySelector(".edit-link-button").href`);
  expect(edit).toBe(`${repository}/edit/main/docs/user/hot-plug.md`);
  const concepts = await readFile(join(repositoryRoot, "docs/user/concepts.md"), "utf8");
  const { length } = concepts.match(/^```mermaid$/gm) ?? [];
  expect(length).toBeGreaterThan(1);
  await browser.open(`${server.url}user/concepts.html`);
  await browser.waitFor(`document.querySelectorAll(".mermaid svg").length === ${length}`);
  expect(browser.problems).toEqual([]);
});

/** Serves the site as a web server does that knows nothing else. */
async function serve(): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer(async ({ url = "" }, response) => {
    const { pathname } = new URL(url, "http://site");
    const file = pathname === base ? "index.html" : pathname.slice(base.length);
    try {
      const body = await readFile(join(site, file));
      const type = types[extname(file)] ?? "application/octet-stream";
      response.writeHead(200, { "content-type": type }).end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${base}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}
