import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Component } from "./component.ts";

const root = join(import.meta.dirname, "../..");
const line = "=".repeat(100);

/**
 * The text of NOTICE in an artifact with these components: Plexus's own, then the copyright notices and licences of
 * each. Equal texts are there once, as are the licences that Debian keeps in one place for all packages.
 */
export function noticeOf(components: readonly Component[]): string {
  const own = readFileSync(join(root, "NOTICE"), "utf8");
  if (components.length === 0) return own;
  const byText = Map.groupBy(components, ({ text }) => text.trim());
  const parts = Array.from(byText, ([text, those]) => section(those.map(titleOf).join("\n"), text));
  const common = commonLicences(parts.join("\n"));
  const intro = "\nThis distribution contains the following software.\n";
  return [own, intro, ...parts, ...common].join("\n");
}

/** How a component is listed: name, version and licence. */
function titleOf({ name, version, licence }: Component): string {
  return `${name} ${version}${licence === undefined ? "" : ` (${licence})`}`;
}

function section(title: string, text: string): string {
  return `${line}\n${title}\n${line}\n\n${text.trim()}\n`;
}

function commonLicences(text: string): string[] {
  const found = text.matchAll(/\/usr\/share\/common-licenses\/([\w.-]*\w)/g);
  const paths = [...new Set(Array.from(found, ([path]) => path))].toSorted();
  return paths
    .filter((path) => existsSync(path))
    .map((path) => section(path, readFileSync(path, "utf8")));
}
