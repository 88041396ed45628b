import { existsSync } from "node:fs";
import { chmod, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect } from "vitest";
import { Daemon } from "../../support/daemon.ts";
import { bridge, ptp } from "../../support/networks.ts";
import { twoPods } from "../../support/node/life-cycle.ts";
import { test as nodeTest } from "../../support/node/test.ts";
import type { CallChanges } from "../../support/node/test-pod.ts";
import { cniPluginDir, distPath, nodeBinary, repositoryRoot } from "../../support/paths.ts";
import { signal } from "../../support/processes.ts";
import { waitUntil } from "../../support/wait.ts";

/** As deploy/systemd/plexusd.service has it: root, without any capability. */
const plexusd = [
  ...["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
  ...[nodeBinary(), distPath("plexusd.js"), "--local", "--http", "false"],
];

/** What stands for systemd, and for both units. */
class Activation {
  readonly #activator: Daemon;

  constructor(activator: Daemon) {
    this.#activator = activator;
  }

  /** The processes of plexusd that were started. */
  get started(): number[] {
    return [...this.#activator.log.matchAll(/^started (\d+)$/gm)].map(([, pid]) => Number(pid));
  }

  /** How they ended: 0 is success, 9 is SIGKILL. */
  get ended(): number[] {
    return [...this.#activator.log.matchAll(/^ended (\d+)$/gm)].map(([, status]) => Number(status));
  }

  get log(): string {
    return this.#activator.log;
  }

  /** Signals the process that runs. */
  signal(name: NodeJS.Signals): void {
    signal(this.started.at(-1) ?? 0, name);
  }

  async whenEnded(count: number): Promise<void> {
    await waitUntil(`${count} processes have ended`, () => this.ended.length >= count);
  }
}

const test = nodeTest
  .extend("paths", ({ idleNode: { lab, manifestsDir } }) => ({
    manifests: manifestsDir,
    config: join(lab.dir, "config-of-this-test.yaml"),
  }))
  /** A shim that has only the socket. */
  .extend("onSocket", ({ idleNode }) => {
    const changes: CallChanges = {
      env: { PLEXUS_SOCKET: idleNode.socketPath, PLEXUS_STANDALONE: "" },
    };
    return changes;
  })
  /** The same with plexus-standalone installed. */
  .extend("withStandalone", ({ idleNode, paths }) => {
    const changes: CallChanges = {
      env: {
        PLEXUS_SOCKET: idleNode.socketPath,
        PLEXUS_STANDALONE: distPath("plexus-standalone"),
        PLEXUS_MANIFESTS: paths.manifests,
        PLEXUS_CONFIG: paths.config,
      },
    };
    return changes;
  })
  .extend("activation", async ({ idleNode: node, paths }, { onCleanup }) => {
    await mkdir(dirname(node.socketPath), { recursive: true, mode: 0o700 });
    await rm(node.socketPath, { force: true });
    const script = join(repositoryRoot, "e2e/support/socket-activation.pl");
    const flags = ["--socket", node.socketPath, "--state-dir", node.stateDir, "--idle-exit", "1"];
    const activator = Daemon.start({
      name: "the activator",
      command: node.lab.command("perl", script, node.socketPath, ...plexusd, ...flags),
      logFile: join(node.lab.dir, "activation.log"),
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", ...variables(paths) },
    });
    const activation = new Activation(activator);
    onCleanup(async () => {
      await waitUntil(
        "plexusd has ended",
        () => activation.started.length === activation.ended.length,
      );
      await activator.stop("SIGKILL");
      await rm(paths.config, { force: true });
    });
    await activator.waitUntil("the socket exists", () => existsSync(node.socketPath));
    return activation;
  });

function variables({ manifests, config }: { manifests: string; config: string }) {
  return { PLEXUS_MANIFESTS: manifests, PLEXUS_CONFIG: config };
}

test.beforeAll(async ({ idleNode: node }) => {
  node.defaultNetwork = ptp("front", 150);
  await node.nad("back", ptp("back", 151));
});

test("the first call starts plexusd, the next uses it, and after its idle exit a call starts it again", async ({
  idleNode: node,
  activation,
  onSocket,
}) => {
  const [first, second] = await twoPods(node, { networks: "back" });
  const before = await node.hostState();
  await first.mustAdd(onSocket);
  await second.mustAdd(onSocket);
  await first.mustCheck(onSocket);
  expect(activation.started).toHaveLength(1);
  expect(await node.networkStatus(`default/${second.name}`)).toHaveLength(2);
  await activation.whenEnded(1);
  expect(existsSync(node.socketPath)).toBe(true);
  await first.mustDel(onSocket);
  await second.mustDel(onSocket);
  await activation.whenEnded(2);
  expect(activation.ended).toEqual([0, 0]);
  expect(await node.changesSince(before)).toEqual([]);
});

test("calls that come while plexusd ends are served, by it or by the next", async ({
  idleNode: node,
  activation,
  onSocket,
}) => {
  const slow = join(node.lab.dir, "slow");
  await mkdir(slow, { recursive: true });
  const script = `#!/bin/sh\nsleep 1\nexec ${cniPluginDir()}/ptp\n`;
  await writeFile(join(slow, "slow"), script, { mode: 0o755 });
  const env = { ...onSocket.env, CNI_PATH: `${slow}:${cniPluginDir()}` };
  const conf = node.conf({ delegates: [ptp("front", 150, { type: "slow" })] });
  const [running, waiting] = await twoPods(node);
  const adding = running.mustAdd({ env, conf });
  // At once, because plexusd is still starting then.
  await waitUntil("the call has begun", () => running.isRecorded, { intervalMs: 1 });
  activation.signal("SIGTERM");
  await waitUntil("plexusd stops", () => activation.log.includes("plexusd stops"));
  const added = waiting.mustAdd(onSocket);
  await Promise.all([adding, added]);
  await running.mustDel({ env, conf });
  await waiting.mustDel(onSocket);
  expect(activation.ended[0]).toBe(0);
});

test("no call is lost around the moment of the idle exit", async ({
  idleNode: node,
  activation,
  onSocket,
}) => {
  const pod = await node.newPod();
  for (const ms of [940, 960, 980, 1000, 1020, 1040, 1060, 1100]) {
    await pod.mustAdd(onSocket);
    await pause(ms);
    await pod.mustDel(onSocket);
  }
  expect(activation.started.length).toBeGreaterThan(1);
  expect(activation.ended.filter((status) => status !== 0)).toEqual([]);
});

test("after kill -9 the next call starts plexusd again, which knows what is attached", async ({
  idleNode: node,
  activation,
  onSocket,
}) => {
  const pod = await node.newPod({ networks: "back" });
  const before = await node.hostState();
  await pod.mustAdd(onSocket);
  activation.signal("SIGKILL");
  await activation.whenEnded(1);
  await pod.mustDel(onSocket);
  expect(activation.started).toHaveLength(2);
  await activation.whenEnded(2);
  expect(activation.ended).toEqual([9, 0]);
  expect(await node.changesSince(before)).toEqual([]);
});

test("plexusd declines calls when its sources are others than at its start: plexus-standalone serves them", async ({
  idleNode: node,
  activation,
  paths,
  withStandalone,
}) => {
  const [first, second] = [await node.newPod(), await node.newPod({ networks: "shop/back" })];
  await node.nad("back", ptp("back", 151), { namespace: "shop" });
  await first.mustAdd(withStandalone);
  await writeFile(paths.config, "namespaceIsolation: true\n");
  const { json } = await second.add(withStandalone);
  expect(json).toMatchObject({ msg: expect.stringContaining("namespace isolation") });
  expect(activation.log).toContain("declines the call");
  await activation.whenEnded(1);
  // The next plexusd has the configuration.
  const again = await second.add({ env: { ...withStandalone.env, PLEXUS_STANDALONE: "" } });
  expect(again.json).toMatchObject({ msg: expect.stringContaining("namespace isolation") });
  expect(activation.started).toHaveLength(2);
  await second.mustDel(withStandalone);
  await first.mustDel(withStandalone);
});

test("plexusd serves no manifests that others than root can change [S-508]", async ({
  idleNode: node,
  activation,
  paths,
  withStandalone,
}) => {
  const pod = await node.newPod();
  await pod.mustAdd(withStandalone);
  await pod.mustDel(withStandalone);
  const manifest = join(paths.manifests, `pod-default-${pod.name}.yaml`);
  await chmod(manifest, 0o666);
  const { exitCode } = await pod.add(withStandalone);
  await chmod(manifest, 0o644);
  expect(exitCode).toBe(1);
  expect(activation.log).toContain("must belong to root");
  await pod.mustDel(withStandalone);
});

test("without manifests, a pod that the runtime describes gets the networks of configuration files", async ({
  idleNode: node,
  activation,
  paths,
  onSocket,
}) => {
  const pod = await node.newPod({ uid: "u1" });
  const confDir = join(node.lab.dir, "net.d");
  await mkdir(confDir, { recursive: true });
  await writeFile(join(confDir, "lab.conflist"), JSON.stringify(bridge("lab", 152)));
  await rename(paths.manifests, `${paths.manifests}.away`);
  const annotations = { "k8s.v1.cni.cncf.io/networks": "lab" };
  const runtimeConfig = { "io.kubernetes.cri.pod-annotations": annotations };
  const described = { ...onSocket, conf: node.conf({ confDir, runtimeConfig }) };
  await pod.mustAdd(described);
  expect(Object.keys(await pod.links())).toContain("net1");
  await pod.mustDel(described);
  await rename(`${paths.manifests}.away`, paths.manifests);
  expect(activation.started).toHaveLength(1);
});
