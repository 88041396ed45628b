import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import { handBackNode } from "#daemon/hand-back.ts";
import { noLogger } from "#engine/ports/logger.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { list, ptp } from "../../support/networks.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test } from "../../support/node/test.ts";
import { cniPluginDir } from "../../support/paths.ts";

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
  await node.stopDaemon();

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

/** What plexusd does at its end if it was deleted. */
async function handBack(node: PlexusNode): Promise<void> {
  const dir = join(node.lab.dir, "net.d");
  await mkdir(dir);
  const primary = join(dir, "10-primary.conflist");
  const own = list("k8s", { type: "plexus", clusterNetwork: primary });
  await writeFile(join(dir, "00-plexus.conflist"), JSON.stringify(own));
  await writeFile(primary, JSON.stringify(ptp("k8s", 93)));
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
