import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { expect, onTestFinished } from "vitest";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import { handBackNode } from "#daemon/hand-back.ts";
import { noLogger } from "#engine/ports/logger.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { list, ptp } from "../../support/networks.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test } from "../../support/node/test.ts";
import { cniPluginDir, distPath, nodeBinary } from "../../support/paths.ts";

test("after a hand-back, nerdctl's DEL still detaches its container; only the pod's record is gone", async ({
  node,
}) => {
  node.defaultNetwork = ptp("k8s", 93);
  const pod = await node.newPod();
  await pod.mustAdd({ conf: node.conf({ name: "k8s" }) });
  await node.lab.addNetns("nerd");
  const before = await node.hostState();
  const conf = node.conf({ name: "nerdctl", delegates: [ptp("net-nerd", 94, { ipMasq: true })] });
  const container = { containerId: "nerdctl-1", netns: "nerd", conf } as const;
  expect((await node.call({ command: "ADD", ...container })).exitCode).toBe(0);
  await stopDaemon(node);

  await handBack(node);
  const files = await readdir(node.stateDir);
  expect(files).toContain("nerdctl-1@eth0.record");
  expect(files).not.toContain(`${pod.containerId}@eth0.record`);
  for (const _ of ["first", "repeated"]) {
    expect((await node.call({ command: "DEL", ...container })).exitCode).toBe(0);
  }
  const kinds = ["links", "links in pods", "iptables rules", "address leases"] as const;
  expect(await node.changesSince(before, kinds)).toEqual([]);
});

test("plexusctl uninstall --check refuses because of the DEL of a pod with only the default network that failed", async ({
  node,
}) => {
  node.defaultNetwork = ptp("k8s", 93);
  const conf = node.conf({ name: "k8s" });
  const before = await node.hostState();
  const pod = await node.newPod();
  await pod.mustAdd({ conf });
  await stopDaemon(node);
  node.cniPath = [join(node.lab.dir, "no-plugins")];
  expect((await pod.del({ conf })).exitCode).toBe(1);
  node.cniPath = [cniPluginDir()];

  const dir = await configure(node);
  const refused = await checkUninstall(node, dir);
  expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(pod.name) });
  await pod.mustDel({ conf });
  expect(await node.changesSince(before, ["links", "address leases"])).toEqual([]);
  expect(await checkUninstall(node, dir)).toMatchObject({ exitCode: 0 });
});

/** Until the end of the test. */
async function stopDaemon(node: PlexusNode): Promise<void> {
  await node.stopDaemon();
  onTestFinished(() => node.startDaemon());
}

/** Makes the container runtime's directory, as plexusd does. */
async function configure(node: PlexusNode): Promise<string> {
  const dir = join(node.lab.dir, "net.d");
  await mkdir(dir, { recursive: true });
  const primary = join(dir, "10-primary.conflist");
  const own = list("k8s", { type: "plexus", clusterNetwork: primary });
  await writeFile(join(dir, "00-plexus.conflist"), JSON.stringify(own));
  await writeFile(primary, JSON.stringify(ptp("k8s", 93)));
  return dir;
}

function checkUninstall(node: PlexusNode, dir: string) {
  const places = {
    "cni-conf-dir": dir,
    "state-dir": node.stateDir,
    socket: node.socketPath,
    "bin-dir": cniPluginDir(),
    "plugin-dirs-file": join(node.lab.dir, "plugin-dirs"),
  };
  const flags = Object.entries(places).map(([flag, path]) => `--${flag}=${path}`);
  const command = [nodeBinary(), distPath("plexusctl.js"), "uninstall", "--check", ...flags];
  const [file, ...args] = node.lab.command(...command);
  return execa(file, args, { reject: false });
}

/** What plexusd does at its end if it was deleted. */
async function handBack(node: PlexusNode): Promise<void> {
  const dir = await configure(node);
  const config = parseConfig("", "config");
  const places = { cniConfDir: dir, primaryDir: dir, binDirs: [cniPluginDir()] };
  const nodeConf = { ...config.nodeConf, ...places };
  const current = () => ({ ...config, nodeConf }) as ReturnType<EffectiveConfig["current"]>;
  const records = await FileRecordStore.open(node.stateDir);
  const events: string[] = [];
  await handBackNode({
    stateDir: node.stateDir,
    config: { current },
    records,
    confFiles: new HostConfFiles(),
    cluster: { recordOnNode: ({ message }) => events.push(message) },
    logger: noLogger,
  });
  await records.flush();
  expect(events).toEqual([expect.stringContaining("uses 10-primary.conflist")]);
}
