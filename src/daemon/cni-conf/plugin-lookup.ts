import { lstat, readlink } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { ConfFiles } from "#engine/ports/host.ts";

/** Where plugins are searched, and which paths of the host are visible. */
export interface PluginSearch {
  readonly binDirs: readonly string[];
  readonly files: Pick<ConfFiles, "sees">;
}

/** Whether a plugin is installed. `unseen`: plexusd cannot see the file or its directory. */
export type PluginPresence =
  | { readonly kind: "there" }
  | { readonly kind: "missing" }
  | { readonly kind: "unseen"; readonly why: string };

/** The check of a network's plugins: `problem` names missing ones, `warning` those not visible. */
export interface PluginFindings {
  readonly problem?: string;
  readonly warning?: string;
}

/** The kernel's limit. */
const maxLinks = 40;

/** Looks for an executable; does not follow links to paths that are not mounted. */
export async function lookUpPlugin(type: string, search: PluginSearch): Promise<PluginPresence> {
  let unseen: PluginPresence | undefined;
  for (const dir of search.binDirs) {
    const presence = await lookUpIn(dir, type, search.files);
    if (presence.kind === "there") return presence;
    if (presence.kind === "unseen") unseen ??= presence;
  }
  return unseen ?? { kind: "missing" };
}

/** The types of the plugins that are not installed. A plugin that cannot be seen counts as installed. */
export async function missingPlugins(
  plugins: readonly { readonly type: string }[],
  search: PluginSearch,
): Promise<string[]> {
  const distinct = [...new Set(plugins.map(({ type }) => type))];
  const found = await Promise.all(distinct.map((type) => lookUpPlugin(type, search)));
  return distinct.filter((_, index) => found[index]?.kind === "missing");
}

export async function examinePlugins(
  types: readonly string[],
  search: PluginSearch,
): Promise<PluginFindings> {
  const distinct = [...new Set(types)];
  const found = await Promise.all(distinct.map((type) => lookUpPlugin(type, search)));
  const missing = distinct.filter((_, index) => found[index]?.kind === "missing");
  if (missing.length > 0) {
    const searched = search.binDirs.join(", ");
    return {
      problem: `its plugins are not all there: ${missing.join(", ")} not found in ${searched}`,
    };
  }
  const [first] = found.flatMap((each) => (each.kind === "unseen" ? [each.why] : []));
  if (first === undefined) return {};
  const unseen = distinct.filter((_, index) => found[index]?.kind === "unseen").join(", ");
  return { warning: `plexusd cannot see whether these plugins are there: ${unseen} (${first})` };
}

async function lookUpIn(
  dir: string,
  type: string,
  files: PluginSearch["files"],
): Promise<PluginPresence> {
  let path = join(dir, type);
  for (let links = 0; links < maxLinks; links++) {
    if (!files.sees(path)) return { kind: "unseen", why: unseenReason(dir, type, path) };
    const found = await lstat(path).catch(() => undefined);
    if (found?.isSymbolicLink() !== true) {
      const isExecutable = found?.isFile() === true && (found.mode & 0o111) !== 0;
      return { kind: isExecutable ? "there" : "missing" };
    }
    path = resolve(dirname(path), await readlink(path).catch(() => ""));
  }
  return { kind: "missing" };
}

function unseenReason(dir: string, type: string, path: string): string {
  const plugin = join(dir, type);
  return path === plugin
    ? `${dir} is not mounted into its container`
    : `${plugin} is a link to ${path}, which is not mounted into its container`;
}
