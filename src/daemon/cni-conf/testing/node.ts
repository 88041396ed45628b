import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { NodeConf } from "#daemon/cni-conf/cni-conf.ts";
import type { NodeConfTimings } from "#daemon/cni-conf/reconciler.ts";
import { type NodeConfState, nodeConfEvent } from "#daemon/cni-conf/status.ts";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import type { EventText } from "#engine/ports/cluster.ts";
import { noLogger } from "#engine/ports/logger.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { type HostView, wholeHost } from "#host/host-view.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";

/** Times for tests. */
export const quick: Partial<NodeConfTimings> = {
  pollMs: 30_000,
  waitingPollMs: 20,
  debounceMs: 5,
  settleMs: 0,
  goneMs: 150,
  restore: { initialMs: 10, maxMs: 40, factor: 4, jitter: 0 },
  repair: { initialMs: 10, maxMs: 40, jitter: 0 },
};

/**
 * A node's directories, with the reference plugins "installed". `view` is what plexusd sees of it,
 * by default everything.
 */
export async function makeNode(options: { view?: (root: string) => HostView } = {}) {
  const root = await temporaryDirectory();
  const dirs = { conf: join(root, "net.d"), bin: join(root, "bin"), state: join(root, "state") };
  for (const dir of Object.values(dirs)) await mkdir(dir);
  const view = options.view?.(root) ?? wholeHost;
  const config: NodeConfSpec = {
    cniConfDir: dirs.conf,
    shimDir: dirs.bin,
    binDirs: [dirs.bin],
    primaryDir: dirs.conf,
    primaryConf: undefined,
    withoutPrimary: false,
    delegates: [],
    readinessFile: undefined,
    capabilities: {},
  };
  const node = {
    ...dirs,
    root,
    config,
    /** At once, as installers do: a reader never finds half of the file. */
    put: async (name: string, text: string) => {
      const written = join(root, "written");
      await writeFile(written, text);
      await rename(written, join(dirs.conf, name));
    },
    install: async (...types: string[]): Promise<void> => {
      for (const type of types) await writeFile(join(dirs.bin, type), "", { mode: 0o755 });
    },
    own: async (): Promise<Record<string, unknown> | undefined> => {
      const text = await readFile(join(dirs.conf, plexusConfName), "utf8").catch(() => undefined);
      return text === undefined ? undefined : JSON.parse(text);
    },
    start: async (
      change: Partial<NodeConfSpec> = {},
      timings: Partial<NodeConfTimings> = {},
    ): Promise<NodeConf & { states: NodeConfState[]; events: EventText[] }> => {
      const states: NodeConfState[] = [];
      const events: EventText[] = [];
      const conf = await new NodeConf({
        spec: () => ({ ...config, ...change }),
        stateDir: dirs.state,
        files: new HostConfFiles(view),
        logger: noLogger,
        onChange(status, before) {
          states.push(status.state);
          events.push(...[nodeConfEvent(status, before) ?? []].flat());
        },
        timings: { ...quick, ...timings },
      }).start();
      onTestFinished(() => conf.stop());
      return Object.assign(conf, { states, events });
    },
  };
  await node.install("plexus", "calico", "portmap", "flannel");
  return node;
}

/** A node on disk. */
export type Node = Awaited<ReturnType<typeof makeNode>>;
