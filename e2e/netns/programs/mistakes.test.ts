import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { list, ptp } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { mistakesOn } from "../../support/node/mistakes.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test } from "../../support/node/test.ts";
import { distPath, nodeBinary } from "../../support/paths.ts";
import { waitUntil } from "../../support/wait.ts";

const { refused, passing } = mistakesOn("up0");

test.beforeAll(async ({ node }) => {
  await node.lab.addUplink("up0");
  node.defaultNetwork = ptp("plain", 10);
});

test.afterEach(async ({ node }) => {
  const names = await readdir(node.stateDir);
  expect(names.filter((name) => name.endsWith(".record"))).toEqual([]);
});

test.for(refused)(
  "a network with the mistake $name leaves no record and no address lease",
  async ({ name, plugins, error }, { node }) => {
    const before = await node.hostState();
    await node.nad(name, list(name, ...plugins));
    const pod = await node.pod(name, { networks: name });
    expect(errorOf(await pod.add()).msg).toMatch(error);
    // It may fail while the plugin's interface is there; the runtime then removes the namespace.
    await pod.del();
    await node.lab.deleteNetns(pod.netns);
    await pod.mustDel();
    expect(await node.changesSince(before, ["attachment records", "address leases"])).toEqual([]);
  },
);

test("an attachment that failed because of a mistake is forgotten, with a Warning event", async ({
  node,
}) => {
  await node.nad("warned", list("warned", { type: "bridge", vlan: 5000 }));
  const pod = await node.pod("warned", { networks: "warned" });
  errorOf(await pod.add());
  expect(pod.isRecorded).toBe(false);
  expect(node.log).toMatch(/AttachmentForgotten.*default\/warned \(net1\): forgot an attachment/);
  await pod.mustDel();
});

test("a replay keeps the record of a failed attachment, and plexusd drops the record when it is back", async ({
  node,
}) => {
  await node.nad(
    "replayed",
    list("replayed", { type: "macvlan", master: "up0", ipam: { type: "host-local" } }),
  );
  const pod = await node.pod("replayed", { networks: "replayed" });
  errorOf(await pod.add());
  await node.lab.deleteNetns(pod.netns);
  await node.stopDaemon("SIGKILL");
  expect(errorOf(await pod.del()).msg).toMatch(/no IP ranges specified/);
  expect(pod.isRecorded).toBe(true);
  await node.startDaemon("--config", await withGrace(node, { delGraceMs: 1000 }));
  await waitUntil("the DEL succeeds", async () => (await pod.del()).exitCode === 0);
  await restart(node, {});
});

test.for(passing)(
  "an attachment with the mistake $name is forgotten after the grace period",
  async ({ name, plugins, error }, { node }) => {
    await node.nad(name, list(name, ...plugins));
    const pod = await node.pod(name, { networks: name });
    expect(errorOf(await pod.add()).msg).toMatch(error);
    await node.lab.deleteNetns(pod.netns);
    errorOf(await pod.del());
    await restart(node, { delGraceMs: 1000 });
    await waitUntil("the DEL succeeds", async () => (await pod.del()).exitCode === 0);
    await restart(node, {});
  },
);

test("endless retries of the kubelet leave at most four records, which plexusctl gc --forget removes", async ({
  node,
}) => {
  await node.nad(
    "retried",
    list("retried", { type: "macvlan", master: "up0", ipam: { type: "dhcp" } }),
  );
  for (let n = 1; n <= 7; n++) {
    const pod = await node.pod("retried", { networks: "retried" });
    const sandbox = { containerId: `c-retried-${n}` };
    errorOf(await pod.add(sandbox));
    await node.lab.deleteNetns(pod.netns);
    await pod.del(sandbox);
  }
  const records = await recorded(node);
  expect(records).toHaveLength(4);
  for (const name of records) {
    const [containerId = ""] = name.split("@");
    expect((await plexusctl(node, "gc", "--forget", containerId)).stdout).toMatch(
      /default\/retried .*forgotten/,
    );
  }
});

async function recorded(node: PlexusNode): Promise<string[]> {
  return (await readdir(node.stateDir)).filter((name) => name.endsWith(".record"));
}

function plexusctl(node: PlexusNode, ...args: string[]) {
  const command = [nodeBinary(), distPath("plexusctl.js"), ...args, "--state-dir", node.stateDir];
  return node.lab.try(command);
}

/** A file with this configuration. */
async function withGrace(node: PlexusNode, config: object): Promise<string> {
  const path = join(node.lab.dir, "grace.yaml");
  await writeFile(path, JSON.stringify(config));
  return path;
}

/** Restarts plexusd with this configuration. */
async function restart(node: PlexusNode, config: object): Promise<void> {
  await node.stopDaemon();
  await node.startDaemon("--config", await withGrace(node, config));
}
