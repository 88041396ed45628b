import { dirname } from "node:path";
import { type HostView, viewOf } from "#host/host-view.ts";
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

/** The paths that plexusd sees in deploy/'s pod, with volumes for the configured directories. */
export function deployedView({ nodeConf }: DaemonConfig): HostView {
  const { confDir, stateDir, socket } = defaultPaths;
  return viewOf([nodeConf.cniConfDir, nodeConf.shimDir, confDir, stateDir, dirname(socket)]);
}

/** A sentence for each configured path that is not mounted into plexusd's container. */
export function unseenPaths(config: DaemonConfig, view: HostView): string[] {
  return configuredPaths(config)
    .filter(({ path }) => !view.sees(path))
    .map(({ key, path, mount, onlyChecked }) => {
      const consequence =
        onlyChecked === true
          ? "so that it cannot see whether the primary CNI's plugins are there"
          : "so that nothing is ever found there";
      return `${key}: ${path} is not mounted into plexusd's container, ${consequence}: add a hostPath volume of ${mount} with the same path`;
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
    ...(isPrimaryDir ? [{ key: "primary.dir", path: primaryDir, mount: primaryDir }] : []),
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
