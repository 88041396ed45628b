import { dirname } from "node:path";
import { type HostView, viewOf, wholeHost } from "#host/host-view.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import type { DaemonConfig } from "./config.ts";

interface ConfiguredPath {
  readonly key: string;
  readonly path: string;
  /** The directory to mount: a file may be created or replaced after plexusd starts. */
  readonly mount: string;
  /** Only the shim on the host uses it; plexusd only checks it. */
  readonly onlyChecked?: boolean;
}

/** A sentence for each configured path that is not mounted into plexusd's container. */
export function unseenPaths(config: DaemonConfig, view: HostView): string[] {
  return sentences(config, view, ["into plexusd's container", ""]);
}

/**
 * The same for a process that may be elsewhere: only plexusd's container has a node's records. Outside
 * of it, what counts is what the manifests in deploy/ mount, with volumes for the configured directories.
 */
export function pathsToMount(config: DaemonConfig, here: HostView): string[] {
  const { confDir, stateDir, socket } = defaultPaths;
  if (here !== wholeHost && here.sees(stateDir)) return unseenPaths(config, here);
  const { cniConfDir, shimDir } = config.nodeConf;
  const view = viewOf([cniConfDir, shimDir, confDir, stateDir, dirname(socket)]);
  return sentences(config, view, ["by the manifests in deploy/", ", as the chart does"]);
}

function sentences(
  config: DaemonConfig,
  view: HostView,
  [mounted, example]: readonly [string, string],
): string[] {
  return configuredPaths(config)
    .filter(({ path }) => !view.sees(path))
    .map(({ key, path, mount, onlyChecked }) => {
      const consequence =
        onlyChecked === true
          ? "so that plexusd cannot see whether the primary CNI's plugins are there"
          : "so that plexusd never finds anything there";
      return `${key}: ${path} is not mounted ${mounted}, ${consequence}: add a hostPath volume of ${mount} with the same path${example}`;
    });
}

function configuredPaths({ engine, nodeConf }: DaemonConfig): ConfiguredPath[] {
  const { clusterNetwork, defaultNetworks = [], confDir, readinessindicatorfile } = engine;
  const { cniConfDir, primaryDir, binDirs } = nodeConf;
  const isPrimaryDir = primaryDir !== cniConfDir && !clusterNetwork?.startsWith("/");
  return [
    ...networkPath("clusterNetwork", clusterNetwork),
    ...defaultNetworks.flatMap((network, i) => networkPath(`defaultNetworks[${i}]`, network)),
    ...(confDir === undefined ? [] : [{ key: "confDir", path: confDir, mount: confDir }]),
    ...networkPath("readinessindicatorfile", readinessindicatorfile),
    ...(isPrimaryDir ? [{ key: "primaryDir", path: primaryDir, mount: primaryDir }] : []),
    ...binDirs.map((dir) => ({
      key: dir === engine.binDir ? "binDir" : "cniBinDir",
      path: dir,
      mount: dir,
      onlyChecked: true,
    })),
  ];
}

function networkPath(key: string, value: string | undefined): ConfiguredPath[] {
  return value?.startsWith("/") ? [{ key, path: value, mount: dirname(value) }] : [];
}
