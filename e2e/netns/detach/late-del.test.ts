import { existsSync } from "node:fs";
import { rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { expect } from "vitest";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { bridge, chained } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test } from "../../support/node/test.ts";
import { waitUntil } from "../../support/wait.ts";

/** Makes the plugin `flaky` do what another one does. Its DEL fails as long as the returned file exists. */
async function installFlaky(
  { lab, cniPath }: PlexusNode,
  type: string,
  name = "flaky",
): Promise<string> {
  const [broken, error] = [join(lab.dir, "broken"), join(lab.dir, "error.json")];
  await writeFile(error, JSON.stringify({ cniVersion: "1.0.0", code: 11, msg: "busy" }));
  const fail = `[ "$CNI_COMMAND" = DEL ] && [ -e ${broken} ] && cat ${error} && exit 1`;
  const script = `#!/bin/sh\n${fail}\nexec ${cniPath.at(-1)}/${type}\n`;
  await writeFile(join(lab.dir, name), script, { mode: 0o755 });
  return broken;
}

test.beforeAll(({ node }) => {
  node.cniPath = [node.lab.dir, ...node.cniPath];
  node.confExtra = { cniVersion: "1.1.0" };
});

/** Has the container `second` attached at the path of `first`, whose DEL has failed, as with `ip netns`. */
async function useAgain(node: PlexusNode, netns: string) {
  const broken = await installFlaky(node, "bridge");
  node.defaultNetwork = bridge("default", 88, { type: "flaky" });
  const call = (command: "ADD" | "DEL" | "CHECK", containerId: string, path?: string) => {
    const env = path === undefined ? {} : { CNI_NETNS: path };
    return node.call({ command, containerId, netns, conf: node.conf(), env });
  };
  await node.lab.addNetns(netns);
  expect(await call("ADD", "first")).toMatchObject({ exitCode: 0 });
  await writeFile(broken, "");
  expect(await call("DEL", "first")).toMatchObject({ exitCode: 1 });
  await node.lab.deleteNetns(netns);
  await node.lab.addNetns(netns);
  expect(await call("ADD", "second")).toMatchObject({ exitCode: 0 });
  await node.lab.run("rm", broken);
  return call;
}

test("a GC that retries a DEL keeps the interface of a container that has the path of its namespace now", async ({
  node,
}) => {
  const netns = "ns-web";
  const call = await useAgain(node, netns);
  const valid = [{ containerID: "second", ifname: "eth0" }];
  const conf = node.conf({ "cni.dev/valid-attachments": valid });
  expect(await node.call({ command: "GC", conf })).toMatchObject({ exitCode: 0 });
  expect(await node.lab.run("ls", node.stateDir)).not.toContain("first@eth0.record");
  expect(await call("CHECK", "second")).toMatchObject({ exitCode: 0 });
  expect(await node.lab.run("ip", "-n", netns, "-br", "addr", "show", "eth0")).toContain("10.88.");
  expect(await call("DEL", "second")).toMatchObject({ exitCode: 0 });
});

/** Other paths of the namespace `NAME`. */
const aliases: readonly [string, name: string, (node: PlexusNode) => Promise<string>][] = [
  ["//", "ns-slash", async () => "/run//netns/ns-slash"],
  ["./ and ..", "ns-dots", async () => "/run/./netns/../netns/ns-dots"],
  ["/var/run", "ns-var", async () => "/var/run/netns/ns-var"],
  [
    "a link",
    "ns-link",
    async ({ lab }) => {
      await lab.run("ln", "-s", "/run/netns/ns-link", join(lab.dir, "link"));
      return join(lab.dir, "link");
    },
  ],
  [
    "another mount",
    "ns-mount",
    async ({ lab }) => {
      await lab.run("touch", "/run/netns/twin");
      await lab.run("mount", "--bind", "/run/netns/ns-mount", "/run/netns/twin");
      return "/run/netns/twin";
    },
  ],
];

test.for(aliases)(
  "a late DEL keeps the interface of a container that has its namespace now, by a path with %s",
  async ([, name, alias], { node }) => {
    const call = await useAgain(node, name);
    const path = await alias(node);
    for (const containerId of ["first", "unknown"])
      expect(await call("DEL", containerId, path)).toMatchObject({ exitCode: 0 });
    expect(errorOf(await call("ADD", "second", path))).toMatchObject({ code: 103 });
    expect(await call("CHECK", "second")).toMatchObject({ exitCode: 0 });
    expect(await call("DEL", "second", path)).toMatchObject({ exitCode: 0 });
    expect(await node.lab.run("ip", "-n", name, "-br", "link")).not.toContain("eth0");
  },
);

test.for([
  ["empty", "ns-empty", (file: string) => writeFile(file, "")],
  [
    "a link to it",
    "ns-odd",
    async (file: string) => {
      await rename(file, `${file}~`);
      await symlink(`${file}~`, file);
    },
  ],
] as const)(
  "a late DEL keeps the interface of a container whose record is %s",
  async ([, name, change], { node }) => {
    const call = await useAgain(node, name);
    const file = join(node.stateDir, "second@eth0.record");
    await change(file);
    for (const containerId of ["first", "unknown"])
      expect(await call("DEL", containerId)).toMatchObject({ exitCode: 0 });
    expect(await node.lab.run("ip", "-n", name, "-br", "link")).toContain("eth0");
    expect(await node.lab.run("ls", node.stateDir)).not.toContain("first@eth0.record");
    expect(node.log).toMatch(
      /second@eth0\.record.*plugins get no namespace in a DEL, as it may be that of an unusable record/,
    );
    for (const each of [file, `${file}~`]) await rm(each, { force: true });
    await call("DEL", "second");
  },
);

needsPlexusd("it is stopped", () => {
  test("DELs without plexusd keep the interface of a container that has the path of their namespace now", async ({
    node,
  }) => {
    const call = await useAgain(node, "ns-alone");
    await node.stopDaemon();
    for (const containerId of ["first", "unknown"])
      expect(errorOf(await call("DEL", containerId))).toMatchObject({ code: 11 });
    await node.startDaemon();
    expect(await call("CHECK", "second")).toMatchObject({ exitCode: 0 });
    for (const containerId of ["first", "unknown", "second"])
      expect(await call("DEL", containerId)).toMatchObject({ exitCode: 0 });
    expect(await node.lab.run("ls", node.stateDir)).not.toContain(".record");
  });
});

needsPlexusd("it is stopped, or not", () => {
  test.for(["plexusd", "the shim alone"])(
    "a DEL by %s that hangs keeps the interface of a container that gets the path meanwhile",
    async (by, { node }) => {
      const [hanging, begun] = [join(node.lab.dir, "hanging"), join(node.lab.dir, "begun")];
      // The namespace is gone when it ends.
      const script = `#!/bin/sh
[ "$CNI_COMMAND" = DEL ] || exec ${node.cniPath.at(-1)}/bridge
touch ${begun}; while [ -e ${hanging} ]; do sleep 0.05; done
CNI_NETNS= exec ${node.cniPath.at(-1)}/bridge
`;
      await writeFile(join(node.lab.dir, "slow"), script, { mode: 0o755 });
      const networks = [bridge("front", 91), bridge("back", 92, { type: "slow" })];
      const [first, second] = networks.map((_, i) =>
        node.conf({ delegates: networks.slice(0, 2 - i) }),
      );
      const netns = "ns-hung";
      const call = (command: "ADD" | "DEL" | "CHECK", containerId: string) =>
        node.start({
          command,
          containerId,
          netns,
          conf: (containerId === "first" ? first : second) ?? "",
        });
      await node.lab.addNetns(netns);
      expect(await call("ADD", "first").outcome).toMatchObject({ exitCode: 0 });
      await writeFile(hanging, "");
      const isAlone = by !== "plexusd";
      if (isAlone) await node.stopDaemon();
      const del = call("DEL", "first");
      await waitUntil("its plugin hangs", () => existsSync(begun) || undefined);
      await node.lab.deleteNetns(netns);
      await node.lab.addNetns(netns);
      if (isAlone) await node.startDaemon();
      expect(await call("ADD", "second").outcome).toMatchObject({ exitCode: 0 });
      await setTimeout(1000);
      await rm(hanging);
      expect(await del.outcome).toMatchObject({ exitCode: isAlone ? 1 : 0 });
      expect(await call("CHECK", "second").outcome).toMatchObject({ exitCode: 0 });
      for (const containerId of ["first", "second"])
        expect(await call("DEL", containerId).outcome).toMatchObject({ exitCode: 0 });
      expect(await node.lab.run("ls", node.stateDir)).not.toContain(".record");
      await node.lab.deleteNetns(netns);
      await rm(begun);
    },
  );
});

test.for(["bridge", "firewall"])(
  "a DEL that is repeated because %s failed keeps the rules of a container that has the address now",
  async (failing, { node }) => {
    // Only a plugin with this name is known to keep rules by address.
    const broken = await installFlaky(node, failing, failing);
    const ipam = { type: "static", addresses: [{ address: "10.89.0.7/24" }] };
    const network = bridge("default", 89, { ipam });
    node.defaultNetwork = chained(network, { type: "firewall", backend: "iptables" });
    const rules = async (): Promise<string> =>
      (await node.lab.run("iptables", "-S", "CNI-FORWARD")).match(/.*10\.89\..*/g)?.join("\n") ??
      "";
    const [first, second] = [await node.newPod(), await node.newPod()];
    await first.mustAdd();
    const before = await rules();
    expect(before).toContain("10.89.0.7");
    await writeFile(broken, "");
    expect(await first.del()).toMatchObject({ exitCode: 1 });
    await node.lab.deleteNetns(first.netns);
    await node.lab.run("rm", broken);
    await second.mustAdd();
    await first.mustDel({ env: { CNI_NETNS: "" } });
    expect(first.isRecorded).toBe(false);
    expect(await rules()).toBe(before);
    await second.mustDel();
    expect(await rules()).toBe("");
    await rm(join(node.lab.dir, failing));
  },
);

test("a DEL removes its rules beside a link with the name of a record", async ({ node }) => {
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.90.0.0/24" }]] };
  const network = bridge("alien", 90, { ipam });
  node.defaultNetwork = chained(network, { type: "firewall", backend: "iptables" });
  const rules = () => node.lab.run("iptables", "-S", "CNI-FORWARD");
  const pod = await node.newPod();
  await pod.mustAdd();
  expect(await rules()).toContain("10.90.0.");
  await symlink("/nowhere", join(node.stateDir, "alien@eth0.record"));
  await pod.mustDel();
  expect(await rules()).not.toContain("10.90.0.");
  await rm(join(node.stateDir, "alien@eth0.record"));
});

test("a DEL that waited behind another one keeps what was attached since", async ({ node }) => {
  node.defaultNetwork = bridge("default", 87, { type: "slow" });
  const [hanging, isBegun] = [join(node.lab.dir, "hanging"), join(node.lab.dir, "begun")];
  const wait = `[ "$CNI_COMMAND" = DEL ] && touch ${isBegun} && while [ -e ${hanging} ]; do sleep 0.05; done`;
  const script = `#!/bin/sh\n${wait}\nexec ${node.cniPath.at(-1)}/bridge\n`;
  await writeFile(join(node.lab.dir, "slow"), script, { mode: 0o755 });
  const call = (
    command: "ADD" | "DEL" | "CHECK",
    netns: string,
    CNI_NETNS = `/run/netns/${netns}`,
  ) => node.start({ command, containerId: "again", conf: node.conf(), env: { CNI_NETNS } });
  for (const [i, path] of ["/run/netns/earlier0", "", "/run/netns/later2"].entries()) {
    const [earlier, later] = [`earlier${i}`, `later${i}`];
    for (const each of [earlier, later]) await node.lab.addNetns(each);
    expect(await call("ADD", earlier).outcome).toMatchObject({ exitCode: 0 });
    await writeFile(hanging, "");
    const del = call("DEL", earlier);
    await waitUntil("its plugin runs", () => existsSync(isBegun) || undefined);
    const repeated = call("DEL", earlier, path);
    await setTimeout(300);
    process.kill(repeated.pid, "SIGSTOP");
    await rm(hanging);
    expect(await del.outcome).toMatchObject({ exitCode: 0 });
    expect(await call("ADD", later).outcome).toMatchObject({ exitCode: 0 });
    process.kill(repeated.pid, "SIGCONT");
    expect(await repeated.outcome).toMatchObject({ exitCode: 0 });
    expect(await call("CHECK", later).outcome).toMatchObject({ exitCode: 0 });
    expect(await node.lab.run("ls", "/var/lib/cni/networks/default")).toContain("10.87.");
    expect(await call("DEL", later).outcome).toMatchObject({ exitCode: 0 });
    expect(await node.lab.run("ls", node.stateDir)).not.toContain(".record");
    await rm(isBegun);
  }
});

test("a DEL with the path of an earlier namespace keeps what was attached since", async ({
  node,
}) => {
  node.defaultNetwork = bridge("default", 86);
  const call = (command: "ADD" | "DEL" | "CHECK", netns: string) =>
    node.call({ command, containerId: "moved", netns, conf: node.conf() });
  for (const each of ["moved-a", "moved-b"]) await node.lab.addNetns(each);
  for (const [command, netns] of [
    ["ADD", "moved-a"],
    ["DEL", "moved-a"],
    ["ADD", "moved-b"],
    ["DEL", "moved-a"],
    ["CHECK", "moved-b"],
  ] as const)
    expect(await call(command, netns)).toMatchObject({ exitCode: 0 });
  await node.lab.deleteNetns("moved-a");
  expect(await call("DEL", "moved-a")).toMatchObject({ exitCode: 0 });
  expect(await call("CHECK", "moved-b")).toMatchObject({ exitCode: 0 });
  expect(await call("DEL", "moved-b")).toMatchObject({ exitCode: 0 });
});
