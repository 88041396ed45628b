import { join, relative, resolve } from "node:path/posix";
import { type Json, type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import { rowOfArgument } from "./multus-table.ts";

/** An entry of a ConfigMap. */
export interface ConfigMapEntry {
  readonly configMap: string;
  readonly key: string;
}

/** A container of a DaemonSet that runs Multus: the thin entry point, or the thick daemon. */
export interface MultusContainer {
  /** `FILE, DaemonSet NAMESPACE/NAME`. */
  readonly source: string;
  readonly kind: "thin" | "thick";
  /** Without dashes. Absent if a shell script has them. */
  readonly flags?: JsonObject;
  /** What limits it to some nodes: `nodeSelector`, and `affinity`. */
  readonly placement: JsonObject;
  /** The text of that script. */
  readonly script?: string;
  /** The host's path of a path in the container. */
  readonly onHost: (path: string) => string;
  /** The entry that the container sees at a path. */
  readonly entryAt: (path: string) => ConfigMapEntry | undefined;
}

/** The containers of Multus in a DaemonSet. */
export function multusContainers(daemonSet: JsonObject, file: string): MultusContainer[] {
  const podSpec = child(child(child(daemonSet, "spec"), "template"), "spec");
  const { name, namespace } = child(daemonSet, "metadata");
  const source = `${file}, DaemonSet ${[namespace, name].filter(Boolean).join("/")}`;
  const volumes = objectsOf(podSpec.volumes);
  return objectsOf(podSpec.containers).flatMap((container) => {
    const words = [...texts(container.command), ...texts(container.args)];
    const kind = kindOf(container, words.join(" "));
    if (kind === undefined) return [];
    const mounts = mountsOf(objectsOf(container.volumeMounts), volumes);
    const hasScript = isScript(words) || entryAt(mounts, words[0] ?? "") !== undefined;
    return [
      {
        ...{ source, kind, placement: placementOf(podSpec) },
        ...(hasScript ? { script: words.join(" ") } : { flags: parseFlags(words) }),
        onHost: (path) => onHost(mounts, path),
        entryAt: (path) => entryAt(mounts, path),
      },
    ];
  });
}

function placementOf({ nodeSelector, affinity }: JsonObject): JsonObject {
  const { "kubernetes.io/os": _, ...selector } = objectOf(nodeSelector);
  const hasSelector = Object.keys(selector).length > 0;
  return { ...(hasSelector && { nodeSelector: selector }), ...(affinity && { affinity }) };
}

/** Images start the thin entry point without a command; the thick ones have it in their tag. */
function kindOf(container: JsonObject, text: string): MultusContainer["kind"] | undefined {
  const { command, name } = container;
  const image = String(container.image);
  // Spiderpool's container multus-cni has Spiderpool's image.
  const isMultus = [image, String(name)].some((each) =>
    /\bmultus(-cni|-thick)?([:@]|$)/.test(each),
  );
  if (/\bmultus-daemon\b/.test(text)) return "thick";
  if (/\bthin_entrypoint\b|--multus-conf-file\b/.test(text)) return "thin";
  if (!isMultus || (command !== undefined && !/\bentrypoint\.sh\b/.test(text))) return;
  return command === undefined && /thick/.test(image) ? "thick" : "thin";
}

function isScript([program = "", ...words]: readonly string[]): boolean {
  return /(^|\/)(ba|da)?sh$/.test(program) && words.some((word) => /^-[a-z]*c[a-z]*$/.test(word));
}

/**
 * As pflag reads them: `--name=value`, `--name value`, and `--name` for a boolean. RKE2's chart
 * writes `--cni-conf-dir==/host/etc/cni/net.d`; no value begins with `=`.
 */
function parseFlags(words: readonly string[]): JsonObject {
  const flags: JsonObject = {};
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    if (!word.startsWith("-")) continue;
    const text = word.slice(word.startsWith("--") ? 2 : 1);
    const end = text.indexOf("=");
    const name = end < 0 ? text : text.slice(0, end);
    const isBoolean = rowOfArgument(name)?.notedIf !== undefined;
    if (end >= 0) flags[name] = text.slice(end + 1).replace(/^=/, "");
    else flags[name] = isBoolean ? "true" : (words[++at] ?? "");
  }
  return flags;
}

interface Mount {
  readonly path: string;
  readonly subPath?: string;
  readonly volume: JsonObject;
}

/** The innermost mounts first. */
function mountsOf(mounts: readonly JsonObject[], volumes: readonly JsonObject[]): Mount[] {
  const found = mounts.flatMap(({ name, mountPath, subPath }) => {
    const volume = volumes.find((each) => each.name === name);
    if (volume === undefined || typeof mountPath !== "string") return [];
    return [{ path: resolve(mountPath), volume, ...(typeof subPath === "string" && { subPath }) }];
  });
  return found.toSorted((a, b) => b.path.length - a.path.length);
}

/** The host's path of a path in Multus's container by its convention: the host is at /host. */
export function hostMountPath(path: string): string {
  return path.startsWith("/host/") ? path.slice("/host".length) : path;
}

function onHost(mounts: readonly Mount[], path: string): string {
  for (const { path: from, volume, subPath = "" } of mounts) {
    const { path: to } = child(volume, "hostPath");
    const rest = below(from, path);
    if (rest !== undefined && typeof to === "string") return resolve(join(to, subPath, rest));
  }
  return hostMountPath(path);
}

function entryAt(mounts: readonly Mount[], path: string): ConfigMapEntry | undefined {
  for (const { path: from, volume, subPath } of mounts) {
    const rest = below(from, path);
    if (rest === undefined) continue;
    const { name: configMap, items } = child(volume, "configMap");
    if (typeof configMap !== "string") return;
    const file = subPath ?? rest;
    const key = objectsOf(items).find((item) => item.path === file)?.key ?? file;
    return typeof key === "string" ? { configMap, key } : undefined;
  }
  return;
}

/** What of a path is below a directory: `""` for the directory itself. */
function below(directory: string, path: string): string | undefined {
  const rest = relative(directory, path);
  return rest === ".." || rest.startsWith("../") ? undefined : rest;
}

function child(object: JsonObject, key: string): JsonObject {
  return objectOf(object[key]);
}

function texts(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

/** Whether a DaemonSet or Deployment is multus-dynamic-networks-controller. */
export function isDynamicNetworksController(object: JsonObject): boolean {
  const podSpec = child(child(child(object, "spec"), "template"), "spec");
  return objectsOf(podSpec.containers).some(({ image }) => {
    return typeof image === "string" && /dynamic-networks-controller([:@]|$)/.test(image);
  });
}
