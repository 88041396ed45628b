import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { Cluster } from "../../e2e/cluster/kubernetes/cluster.ts";
import type { Command } from "../../e2e/cluster/machine/run.ts";
import { distPath, nodeBinary } from "../../e2e/support/paths.ts";
import { plexusdFlags, smallMemory } from "../../e2e/support/plexusd.ts";

/** What attaches the pods of each runtime handler of containerd; the default handler has the installed Plexus. */
export const handlers = {
  "primary CNI": "bare",
  floor: "floors",
  "Plexus without status and event": "silent",
  Plexus: "",
} as const;

/** Where containerd serves its metrics, on the node. */
export const metricsAddress = "127.0.0.1:1338";

const primary = "10-primary.conflist";
/** The primary's file for the engines; Plexus keeps another one in the runtime's directory. */
const primaryFile = `/etc/cni/bare.d/${primary}`;

/** A shim's engine, by its handler. Every name is as long as `plexus`: see {@link addShim}. */
const engines = ["floors", "silent"] as const;
type Engine = (typeof engines)[number];
const socketOf = (engine: string): string => `/run/plexus/${engine}.sock`;
const stateDirOf = (engine: Engine): string => `/etc/cni/${engine}`;

/** Adds the handlers besides the default one. The node must be rebooted to have them. */
export function addHandlers({ node }: Cluster): void {
  const confDir = (handler: string): string => join(node.root, `etc/cni/${handler}.d`);
  for (const handler of ["bare", ...engines]) mkdirSync(confDir(handler));
  copyFileSync(join(node.cniConfDir, primary), join(confDir("bare"), primary));
  const text = readFileSync(join(node.cniConfDir, primary), "utf8");
  const { cniVersion, name } = JSON.parse(text) as { cniVersion: string; name: string };
  const capabilities = { "io.kubernetes.cri.pod-annotations": true };
  for (const engine of engines) {
    addShim(node.cniBinDir, engine);
    mkdirSync(join(node.root, stateDirOf(engine)), { mode: 0o700 });
    const plugins = [{ type: engine, clusterNetwork: primaryFile, capabilities }];
    writeFileSync(
      join(confDir(engine), "00.conflist"),
      JSON.stringify({ cniVersion, name, plugins }),
    );
  }
  const lines = ["bare", ...engines].map(handlerText);
  const metrics = `[metrics]\n  address = "${metricsAddress}"\n`;
  appendFileSync(join(node.root, "containerd.toml"), [...lines, metrics].join("\n"));
}

function handlerText(name: string): string {
  return `
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.${name}]
  runtime_type = "io.containerd.runc.v2"
  cni_conf_dir = "/etc/cni/${name}.d"
`;
}

/** The shim with other paths: containerd gives its plugins no variables. The texts keep their length. */
function addShim(binDir: string, engine: Engine): void {
  const places = [
    [socketOf("plexus"), socketOf(engine)],
    ["/var/lib/plexus", stateDirOf(engine)],
  ] as const;
  let shim = readFileSync(distPath("plexus"), "latin1");
  for (const [from, to] of places) {
    if (!shim.includes(from) || from.length !== to.length) throw new Error(`no place for ${to}`);
    shim = shim.replaceAll(from, to);
  }
  writeFileSync(join(binDir, engine), shim, "latin1");
  chmodSync(join(binDir, engine), 0o755);
}

/** Starts the engines of the handlers: the empty one, and a plexusd without an API. */
export async function startEngines({ node }: Cluster): Promise<void> {
  const manifests = "/run/plexus/manifests";
  await node.host.run(["mkdir", "-p", manifests]);
  const program = join(import.meta.dirname, "floor-engine.ts");
  const paths = { socket: socketOf("silent"), stateDir: stateDirOf("silent"), manifests };
  await start("floors", "serves", program, socketOf("floors"), primaryFile, "/opt/cni/bin");
  await start("silent", "plexusd serves", distPath("plexusd.js"), ...plexusdFlags(paths));

  async function start(name: Engine, ready: string, ...rest: string[]): Promise<void> {
    const variables = Object.entries(smallMemory.env).map((each) => each.join("="));
    const command: Command = ["env", ...variables, nodeBinary(), ...smallMemory.flags, ...rest];
    const daemon = await node.host.startDaemon(name, command);
    await daemon.waitUntil(`${name} serves`, () => daemon.log.includes(ready));
  }
}
