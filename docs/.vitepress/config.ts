import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { defineConfig, type MarkdownOptions } from "vitepress";
import { sidebar, siteLink, sitePath, versionMenu } from "../../scripts/docs/site.ts";
import { anchor } from "../../scripts/documents.ts";
import { repository } from "../../scripts/release/repository.ts";

/** The site of these pages. `make docs SITE=/` builds it for that path of its server. */
const root = join(import.meta.dirname, "../..");
const { SITE = "" } = process.env;
const changelog = readFileSync(join(root, "CHANGELOG.md"), "utf8");

/** The pages are written for GitHub: its anchors, links to files of the repository, and diagrams of Mermaid. */
const configureMarkdown: MarkdownOptions["config"] = (md) => {
  md.core.ruler.push("repository", ({ tokens, env }) => {
    const page = relative(root, env.realPath ?? env.path);
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const href = token.attrGet("href");
      if (href !== null) token.attrSet("href", siteLink(href, { root, page, repository }));
    }
  });
  const { fence } = md.renderer.rules;
  md.renderer.rules.fence = (...args) => {
    const [tokens, index] = args;
    const { info, content } = tokens[index];
    if (info !== "mermaid") return fence?.(...args) ?? "";
    return `<Mermaid code="${encodeURIComponent(content)}" />`;
  };
};

/** Vue is not in a folder above the pages. Mermaid runs in browsers only. */
const loadLater = {
  name: "load-later",
  enforce: "pre" as const,
  resolveId: (id: string, _importer: unknown, { ssr }: { ssr?: boolean }) =>
    ssr && /^(?:vue|mermaid)(?:\/|$)/.test(id) ? { id, external: true } : undefined,
};

export default defineConfig({
  title: "Plexus",
  description: "A CNI meta-plugin: Kubernetes pods with several networks",
  head: [["link", { rel: "icon", href: "data:," }]],
  base: `${SITE}/`.replace(/\/+$/, "/"),
  srcDir: root,
  srcExclude: ["!(docs)/**/*.md"],
  outDir: join(root, "dist/site"),
  rewrites: sitePath,
  markdown: { anchor: { slugify: anchor }, config: configureMarkdown },
  vite: {
    plugins: [loadLater],
    // It is bundled and minified already.
    resolve: { alias: { mermaid: "mermaid/dist/mermaid.esm.min.mjs" } },
    build: { chunkSizeWarningLimit: 4000 },
  },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [versionMenu(changelog, repository)],
    sidebar: sidebar({ root, repository }),
    editLink: { pattern: `${repository}/edit/main/:path`, text: "Edit this page" },
    socialLinks: [{ icon: "github", link: repository }],
  },
});
