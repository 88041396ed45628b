import { cpSync, existsSync, mkdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { setUpNode } from "../../e2e/support/node-setup.ts";
import { distPath } from "../../e2e/support/paths.ts";

/** Directories of the demo and the programs that it shows. */
export interface Workplace {
  readonly dir: string;
  readonly manifests: string;
  readonly stateDir: string;
  readonly socket: string;
  readonly logFile: string;
  readonly plugins: string;
  readonly shim: string;
}

const neededPlugins = ["ptp", "bridge", "macvlan", "host-local", "static"];

/**
 * Creates the demo's directory, which is removed when the process ends. Its fixed name is also the lock: two
 * demos cannot run at once.
 * @throws Error when it exists or a plugin is missing
 */
export function makeWorkplace(): Workplace {
  const plugins = pluginDirectory();
  const dir = process.env.PLEXUS_DEMO_DIR ?? join(tmpdir(), "plexus-demo");
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    throw new Error(`${dir} is in use: another demo runs, or one was killed; then remove it`);
  }
  process.on("exit", () => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));
  const manifests = join(dir, "manifests");
  cpSync("examples/manifests", manifests, { recursive: true });
  const shim = join(dir, "plexus");
  cpSync(distPath("plexus"), shim);
  return {
    ...{ dir, manifests, plugins, shim },
    stateDir: join(dir, "state"),
    socket: join(dir, "plexus.sock"),
    logFile: join(dir, "plexusd.log"),
  };
}

/** @throws Error naming the first missing plugin */
function pluginDirectory(): string {
  const chosen = process.env.CNI_PLUGIN_DIR;
  const candidates = chosen === undefined ? ["/opt/cni/bin", "/usr/lib/cni"] : [chosen];
  const lacks = (dir: string): string | undefined =>
    neededPlugins.find((type) => !existsSync(join(dir, type)));
  const found = candidates.find((dir) => lacks(dir) === undefined);
  if (found !== undefined) return found;
  const last = candidates.at(-1) ?? "";
  throw new Error(`CNI plugin ${lacks(last)} is missing in ${last}: run \`make deps\``);
}

/** Sets up the node with the links that the example manifests expect. scripts/demo.sh created the namespaces, which end with the demo. */
export async function setUpDemoNode(): Promise<void> {
  await setUpNode("uplink0");
  await execa("ip", ["link", "add", "br-storage", "type", "bridge"]);
  await execa("ip", ["link", "set", "br-storage", "up"]);
}

/** Makes a pod's network namespace as a runtime does. */
export async function addNamespace(name: string): Promise<void> {
  await execa("ip", ["netns", "add", name]);
  await execa("ip", ["-n", name, "link", "set", "lo", "up"]);
}
