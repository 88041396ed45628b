import { join } from "node:path";
import { expect, test } from "vitest";
import { documents } from "../documents.ts";
import { sidebar, siteLink, sitePath, versionMenu } from "./site.ts";

const root = join(import.meta.dirname, "../..");
const repository = "https://example.org/plexus";

test("the sidebar, which is the README's table, has every page of docs/ once", () => {
  const groups = sidebar({ root, repository });
  expect(groups[0]?.items[0]).toEqual({ text: "Tour", link: "/user/tour.md" });
  const links = groups.flatMap(({ items }) => items.map(({ link }) => link));
  const pages = documents(root).filter((page) => page.startsWith("docs/"));
  expect(links.filter((link) => /^\/[a-z]/.test(link)).toSorted()).toEqual(
    pages.map((page) => `/${sitePath(page)}`).toSorted(),
  );
});

test.each([
  ["docs/user/hot-plug.md", "configuration.md#limits", "/user/configuration.md#limits"],
  ["docs/user/concepts.md", "../../ARCHITECTURE.md#the-shim", "/ARCHITECTURE.md#the-shim"],
  ["docs/user/concepts.md", "../../README.md", "/index.md"],
  ["README.md", "docs/operations/helm.md", "/operations/helm.md"],
  ["README.md", "e2e/fresh/main.ts", `${repository}/blob/main/e2e/fresh/main.ts`],
  ["README.md", "packages/npwg/README.md", `${repository}/blob/main/packages/npwg/README.md`],
  ["docs/user/concepts.md", "../../deploy", `${repository}/tree/main/deploy`],
  ["README.md", "#install", "#install"],
  ["README.md", "https://example.org/a.md", "https://example.org/a.md"],
])("siteLink() on %s: %s leads to %s", (page, href, expected) => {
  expect(siteLink(href, { root, page, repository })).toBe(expected);
});

test("siteLink() throws when a file does not exist", () => {
  const link = (): string => siteLink("missing.ts", { root, page: "README.md", repository });
  expect(link).toThrow("README.md: missing.ts does not exist");
});

test("versionMenu() has the newest version, and the pages of each release", () => {
  const changelog = "# Changelog\n\n## 0.3.0 (not yet released)\n\n### A\n\n## 0.2.0\n\n## 0.1.0\n";
  expect(versionMenu(changelog, repository)).toEqual({
    text: "0.3.0 (not yet released)",
    items: [
      { text: "0.2.0", link: `${repository}/tree/v0.2.0/docs` },
      { text: "0.1.0", link: `${repository}/tree/v0.1.0/docs` },
      { text: "Changelog", link: "/CHANGELOG.md" },
    ],
  });
});
