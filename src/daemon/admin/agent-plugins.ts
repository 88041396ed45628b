import { readdir } from "node:fs/promises";
import { lookUpPlugin, type PluginSearch } from "#daemon/cni-conf/plugin-lookup.ts";
import { deadline, untilAborted } from "#lib/concurrency/deadline.ts";
import { executableNames } from "#lib/files/default-paths.ts";
import type { CallServer } from "#serving/call-server.ts";

/** What `plexus agent` says of the plugins in the container runtime's directories. */
export interface AgentPlugins {
  /** It does not execute these, because others than root can change them. */
  readonly refused: readonly string[];
  /** Why, of the first. */
  readonly why: string;
}

export type FindByAgent = CallServer["findByAgent"];

/** An agent that is suspended must not delay the whole status. */
const answerMs = 5000;

const ownNames: ReadonlySet<string> = new Set(Object.values(executableNames));

/**
 * Has the agent look up the plugins that plexusd can list: only the agent sees every directory of
 * their paths, where their links lead, and its options. Undefined if it does not answer.
 */
export async function agentPlugins(
  find: FindByAgent,
  search: PluginSearch,
): Promise<AgentPlugins | undefined> {
  const types = await installedPlugins(search);
  if (types.length === 0) return undefined;
  using limit = deadline(answerMs);
  const asked = untilAborted(find(search.binDirs, types), limit.signal);
  const answers = await asked.catch(() => undefined);
  if (answers === undefined) return undefined;
  const refused = answers.flatMap((answer, index) =>
    answer.outcome === "refused" ? [{ type: types[index] ?? "", why: answer.message }] : [],
  );
  return { refused: refused.map(({ type }) => type), why: refused[0]?.why ?? "" };
}

async function installedPlugins({ binDirs, files }: PluginSearch): Promise<string[]> {
  const lists = await Promise.all(binDirs.map((dir) => pluginsIn(dir, files)));
  return [...new Set(lists.flat())].toSorted();
}

async function pluginsIn(dir: string, files: PluginSearch["files"]): Promise<string[]> {
  const listed = await readdir(dir).catch(() => []);
  const names = listed.filter((name) => !ownNames.has(name));
  const search = { binDirs: [dir], files };
  const found = await Promise.all(names.map((name) => lookUpPlugin(name, search)));
  return names.filter((_, index) => found[index]?.kind !== "missing");
}
