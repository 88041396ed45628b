import { basename } from "node:path/posix";
import { type JsonObject, objectsOf, quoteValue } from "#lib/json.ts";
import { hostMountPath, type MultusContainer } from "./multus-container.ts";
import { cniTypes, type MultusConfiguration, type MultusParts } from "./multus-files.ts";
import {
  argumentDefaults,
  type Effective,
  type MigrationNote,
  rowOfArgument,
} from "./multus-table.ts";

const daemonConfig = "/etc/cni/net.d/multus.d/daemon-config.json";
const generated = "00-multus.conf or 00-multus.conflist";
const confDir = "/etc/cni/net.d";

/**
 * Selects what Multus uses: files of a node, the arguments of its containers, and the entries of
 * ConfigMaps that these containers read.
 * @throws Error naming the file of a node to give, if the manifests do not tell
 */
export function inEffect(parts: MultusParts): {
  effective: Effective[];
  notes: MigrationNote[];
} {
  const { configurations, containers, installers } = parts;
  const files = configurations.filter(({ entry }) => entry === undefined);
  const used = containers.flatMap((container) =>
    container.kind === "thin" ? usedByThin(container, parts) : usedByThick(container, parts),
  );
  const entries = configurations.filter(({ entry }) => entry !== undefined);
  const alone = containers.length === 0 ? withoutContainer(entries, files, installers) : [];
  const thick = containers.find(({ kind }) => kind === "thick");
  const effective = [...used, ...[...files, ...alone].map((each) => plain(each, thick?.onHost))];
  for (const each of effective) checkProvided(each, effective);
  const { used: inUse = [], unused = [] } = Object.groupBy(configurations, ({ source }) =>
    effective.some((each) => each.source === source) ? "used" : "unused",
  );
  return {
    effective,
    notes: [
      ...installers,
      ...unused.map(unusedNote),
      ...inUse.flatMap(listNotes),
      ...containers.flatMap(placementNotes),
      ...parts.dynamicNetworks.map(hotPlugNote),
    ],
  };
}

function plain(
  { source, kind, keys }: MultusConfiguration,
  onHost: Effective["onHost"] = hostMountPath,
): Effective {
  return { source, kind, keys, onHost };
}

function usedByThin(container: MultusContainer, { configurations }: MultusParts): Effective[] {
  const { source, flags, onHost } = container;
  const hasNodeFile = configurations.some(({ kind, entry }) => kind === "cni" && !entry);
  if (flags === undefined) {
    if (hasNodeFile) return [];
    throw undecided(container, "a shell script starts Multus, so its arguments are not known");
  }
  for (const [name, value] of hasNodeFile ? [] : Object.entries(flags)) {
    if (rowOfArgument(name) === undefined)
      throw undecided(container, `--${name} is not in Multus 4.3`);
    if (String(value).includes("$("))
      throw undecided(container, `--${name} depends on the container's environment: ${value}`);
  }
  const keys = { ...argumentDefaults, ...flags };
  const own: Effective = { source, kind: "arguments", keys, onHost };
  const path = String(keys["multus-conf-file"]);
  if (path === "auto") return [own];
  const file = entryOf(container, path, configurations);
  if (file === undefined && !hasNodeFile) throw missing(container, path, fileOnNode(container));
  return [own, ...(file === undefined ? [] : [plain(file)])];
}

function usedByThick(container: MultusContainer, { configurations }: MultusParts): Effective[] {
  const { source, flags, script = "", onHost } = container;
  const keys = { "cni-bin-dir": binDir(onHost) };
  const own: Effective = { source, kind: "arguments", keys, onHost };
  if (configurations.some(({ kind, entry }) => kind === "daemon" && !entry)) return [own];
  if (/--?config\b/.test(script)) {
    throw undecided(container, "a shell script selects its file", "daemon-config.json");
  }
  const path = String(flags?.config ?? daemonConfig);
  const file = entryOf(container, path, configurations);
  if (file === undefined) throw missing(container, path, onHost(path));
  const provided = providedFile(file.keys);
  const cni = provided && entryOf(container, provided, configurations);
  return [own, plain(file, onHost), ...(cni ? [plain(cni, onHost)] : [])];
}

/** Where the daemon's container has the plugin directory: its host path is the same, or /host is. */
function binDir(onHost: MultusContainer["onHost"]): string {
  const host = onHost(argumentDefaults["cni-bin-dir"]);
  return host === hostMountPath(argumentDefaults["cni-bin-dir"]) ? onHost(host) : host;
}

function entryOf(
  container: MultusContainer,
  path: string,
  configurations: readonly MultusConfiguration[],
): MultusConfiguration | undefined {
  const at = container.entryAt(path);
  return configurations.find(({ entry }) => {
    return at && entry?.configMap === at.configMap && entry.key === at.key;
  });
}

function missing(container: MultusContainer, path: string, onNode: string): Error {
  const at = container.entryAt(path);
  const uses = `Multus uses ${path}`;
  if (at === undefined) return undecided(container, uses, onNode);
  return new Error(
    `${container.source}: ${uses}, the entry ${at.key} of ConfigMap ${at.configMap}. Give this ConfigMap as well`,
  );
}

/** Without a DaemonSet: the daemon's only file is in effect, but a CNI configuration may be unused. */
function withoutContainer(
  entries: readonly MultusConfiguration[],
  files: readonly MultusConfiguration[],
  installers: readonly MigrationNote[],
): MultusConfiguration[] {
  const daemons = entries.filter(({ kind }) => kind === "daemon");
  if (files.length > 0 || (daemons.length === 1 && daemons.length === entries.length))
    return daemons;
  const sources = [...entries, ...installers].map(({ source }) => source).join("; ");
  throw new Error(
    `${sources}: cannot tell whether Multus uses this: its DaemonSet decides. Give the DaemonSet as well, or a node's ${confDir}/${generated}`,
  );
}

/** The file that the daemon copies to the node, unless it generates one. */
function providedFile({ multusConfigFile: file }: JsonObject): string | undefined {
  return typeof file === "string" && file !== "auto" && file !== "" ? file : undefined;
}

function checkProvided({ kind, source, keys }: Effective, all: readonly Effective[]): void {
  const file = kind === "daemon" ? providedFile(keys) : undefined;
  if (file === undefined || all.some((each) => each.kind === "cni")) return;
  throw new Error(
    `${source}: multusConfigFile: Multus uses ${file}. Give its ConfigMap and the DaemonSet as well, or a node's ${confDir}/${basename(file)}`,
  );
}

function undecided(container: MultusContainer, why: string, file = fileOnNode(container)): Error {
  const { source } = container;
  return new Error(`${source}: ${why}. Give the file that a node has as well: ${file}`);
}

function fileOnNode({ flags, onHost }: MultusContainer): string {
  const { "cni-conf-dir": dir, "multus-conf-file": path } = { ...argumentDefaults, ...flags };
  const name = path === "auto" ? generated : basename(path);
  return `${onHost(dir)}/${name}`;
}

function unusedNote({ source }: MultusConfiguration): MigrationNote {
  return { source, key: "all keys", note: "left out: Multus does not use this entry" };
}

/** What else the list with Multus's plugin has: plexusd makes its own from the primary CNI's. */
function listNotes({ source, list = {} }: MultusConfiguration): MigrationNote[] {
  const { cniVersion, name, type, plugins, ...flags } = list;
  const flagNotes = Object.entries(flags).map(([key, value]) => {
    const note = `left out: plexusd takes it from the primary CNI's file; if you need ${quoteValue(value)}, set it there`;
    return { source, key, note };
  });
  const pluginNotes = objectsOf(plugins).flatMap((plugin, i) => {
    if (cniTypes.includes(plugin.type)) return [];
    const note = `left out: pods lose the plugin ${quoteValue(plugin.type)}. Add it to the plugins of the default network: to the primary CNI's file, or to \`delegates\`. The agent of a service mesh adds its own (docs/operations/service-meshes.md)`;
    return [{ source, key: `plugins[${i}]`, note }];
  });
  return [...flagNotes, ...pluginNotes];
}

function placementNotes({ source, placement }: MultusContainer): MigrationNote[] {
  return Object.entries(placement).map(([key, value]) => {
    const note = `give Plexus's DaemonSets the same, or they run on other nodes than Multus: ${quoteValue(value, 500)}`;
    return { source, key, note };
  });
}

function hotPlugNote(source: string): MigrationNote {
  const key = "multus-dynamic-networks-controller";
  const note =
    "replaced by `hotPlug: true`, which needs `plexus agent --attach`: kubectl apply -k deploy/overlays/agent, or --set agent.enabled=true (docs/user/hot-plug.md)";
  return { source, key, note };
}
