import { chmod, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeNode } from "#daemon/cni-conf/testing/node.ts";
import { viewOf } from "#host/host-view.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { eventually } from "#lib/testing/eventually.ts";

/*
 * The directories of distributions as plexusd sees them in its container: docs/operations/platforms.md says where
 * they are taken from.
 */

/** What k3s writes (pkg/agent/flannel/setup_linux.go). */
const k3sFlannel = {
  name: "cbr0",
  cniVersion: "1.0.0",
  plugins: [
    { type: "flannel", delegate: { hairpinMode: true, isDefaultGateway: true } },
    { type: "portmap", capabilities: { portMappings: true } },
    { type: "bandwidth", capabilities: { bandwidth: true } },
  ],
};

/** What kindnetd writes (images/kindnetd/cmd/kindnetd/cni.go). */
const kindnet = {
  cniVersion: "0.3.1",
  name: "kindnet",
  plugins: [
    { type: "ptp", ipMasq: false, ipam: { type: "host-local" }, mtu: 1500 },
    { type: "portmap", capabilities: { portMappings: true } },
  ],
};

const release = "/var/lib/rancher/k3s/data/3ab3b0b8f1d2/bin/cni";

/** k3s: data/cni is mounted, but its plugins are links to a release directory that is not. */
async function makeK3sNode() {
  const node = await makeNode({
    view: (root) => viewOf([join(root, "data/cni"), join(root, "agent/etc/cni/net.d")]),
  });
  const conf = join(node.root, "agent/etc/cni/net.d");
  const bin = join(node.root, "data/cni");
  await mkdir(conf, { recursive: true });
  await mkdir(bin, { recursive: true });
  for (const plugin of ["cni", "bandwidth", "bridge", "flannel", "host-local", "portmap"]) {
    await symlink(release, join(bin, plugin));
  }
  await writeFile(join(bin, "plexus"), "", { mode: 0o755 });
  await writeFile(join(conf, "10-flannel.conflist"), JSON.stringify(k3sFlannel));
  const spec = { cniConfDir: conf, primaryDir: conf, binDirs: [bin], shimDir: bin };
  return { ...node, conf, bin, start: () => node.start(spec) };
}

test("k3s: plexusd does not wait for plugins whose links leave its mounts, but for missing ones", async () => {
  const { conf, bin, start } = await makeK3sNode();
  const running = await start();
  expect(running.status()).toEqual({
    state: "active",
    reason: "delegating to 10-flannel.conflist",
    primary: "10-flannel.conflist",
    warning: `plexusd cannot see whether these plugins are there: flannel, portmap, bandwidth (${bin}/flannel is a link to ${release}, which is not mounted into its container)`,
  });
  expect(JSON.parse(await readFile(join(conf, plexusConfName), "utf8"))).toMatchObject({
    cniVersion: "1.0.0",
    plugins: [
      {
        type: "plexus",
        clusterNetwork: join(conf, "10-flannel.conflist"),
        capabilities: { bandwidth: true, portMappings: true },
      },
    ],
  });
  const text = JSON.stringify(k3sFlannel).replace("bandwidth", "tuning");
  await writeFile(join(conf, "10-flannel.conflist"), text);
  await eventually(() => expect(running.notReadyReason()).toContain(`tuning not found in ${bin}`));
});

test("a plugin link within the mounts is followed, and a broken one counts as missing", async () => {
  const node = await makeNode({ view: (root) => viewOf([root]) });
  await node.put("10-x.conflist", JSON.stringify(k3sFlannel));
  await writeFile(join(node.bin, "cni"), "", { mode: 0o755 });
  await symlink("cni", join(node.bin, "bandwidth"));
  const conf = await node.start();
  expect(conf.status()).toMatchObject({ state: "active" });
  expect(conf.status().warning).toBeUndefined();
  await chmod(join(node.bin, "cni"), 0o644);
  conf.reconcileNow();
  await eventually(() => expect(conf.notReadyReason()).toContain("bandwidth not found"));
  await symlink("loop", join(node.bin, "loop"));
  await node.put("10-x.conflist", JSON.stringify(k3sFlannel).replace("bandwidth", "loop"));
  await eventually(() => expect(conf.notReadyReason()).toContain("loop not found"));
});

test("kind: plexusd uses kindnetd's configuration with the four plugins of its nodes", async () => {
  const node = await makeNode({ view: (root) => viewOf([join(root, "net.d"), join(root, "bin")]) });
  await node.install("host-local", "loopback", "portmap", "ptp");
  // kindnetd writes a temporary file that no runtime reads, and renames it.
  await node.put("10-kindnet.conflist.temp", "{");
  const conf = await node.start();
  expect(conf.status().state).toBe("waiting");
  await node.put("10-kindnet.conflist", JSON.stringify(kindnet));
  await eventually(() => expect(conf.status().state).toBe("active"));
  expect(conf.status().warning).toBeUndefined();
  expect(await node.own()).toMatchObject({
    cniVersion: "0.3.1",
    plugins: [{ clusterNetwork: join(node.conf, "10-kindnet.conflist") }],
  });
});
