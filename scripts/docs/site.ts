import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path/posix";

/** A link of the sidebar or of a menu. */
interface SiteLink {
  readonly text: string;
  readonly link: string;
}

/** A group of the sidebar, or a menu. */
interface SiteGroup {
  readonly text: string;
  readonly items: SiteLink[];
}

/** The pages of the site, relative to the repository's root: its own Markdown files and those of docs/. */
const pageOfSite = /^(?:docs\/.*|[^/]*)\.md$/;

/** Where a page of the repository is on the site, relative to the site's root. */
export function sitePath(page: string): string {
  return page === "README.md" ? "index.md" : page.replace(/^docs\//, "");
}

/**
 * Where a link of a page leads on the site: to another page, or to the file or folder in the repository. Other links
 * stay as they are.
 */
export function siteLink(
  href: string,
  { root, page, repository }: { root: string; page: string; repository: string },
): string {
  if (/^(?:[a-z]+:|#)/.test(href)) return href;
  const [path = "", anchor] = href.split("#");
  const file = join(dirname(page), path);
  if (!existsSync(join(root, file))) throw new Error(`${page}: ${href} does not exist`);
  const suffix = anchor === undefined ? "" : `#${anchor}`;
  if (pageOfSite.test(file)) return `/${sitePath(file)}${suffix}`;
  const kind = statSync(join(root, file)).isDirectory() ? "tree" : "blob";
  return `${repository}/${kind}/main/${file}${suffix}`;
}

/** The sidebar: the README's table of pages, one group for each row. */
export function sidebar({ root, repository }: { root: string; repository: string }): SiteGroup[] {
  const readme = readFileSync(join(root, "README.md"), "utf8");
  const [, table = ""] = readme.split("\n| task | pages |\n");
  const rows = table.matchAll(/^\| ([A-Z][^|]*) \| (.*) \|$/gm);
  return Array.from(rows, ([, group = "", cell = ""]) => {
    const links = cell.matchAll(/\[([^\]]*)\]\(([^)]*)\)/g);
    const items = Array.from(links, ([, text = "", href = ""]) => ({
      text: title(text),
      link: siteLink(href, { root, page: "README.md", repository }),
    }));
    return { text: group, items };
  });
}

/** The text of a link in a table, as it stands alone. */
function title(text: string): string {
  const plain = text.replaceAll("`", "").replace(/\.md$/, "");
  return plain.charAt(0).toUpperCase() + plain.slice(1);
}

/** The menu of versions: the changelog's newest, with the pages of each release in the repository. */
export function versionMenu(changelog: string, repository: string): SiteGroup {
  const headings = Array.from(changelog.matchAll(/^## (\d.*)$/gm), ([, heading = ""]) => heading);
  const releases = headings.filter((heading) => !heading.includes("not yet released"));
  const items = releases.map((heading) => {
    const [version = ""] = heading.split(" ");
    return { text: version, link: `${repository}/tree/v${version}/docs` };
  });
  const [text = ""] = headings;
  return { text, items: [...items, { text: "Changelog", link: "/CHANGELOG.md" }] };
}
