import { execa } from "execa";
import { expect } from "vitest";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { bridge, list, macvlan } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { explained } from "../../support/node/explain.ts";
import { scriptedTest as test } from "../../support/node/test.ts";
import { cniPluginDir, distPath, nodeBinary } from "../../support/paths.ts";

/*
 * Requests that Multus passes on and never compares with the result. Uses the real reference plugins if this
 * kernel has their links; e2e/sriov/links.test.ts has ipvlan and vlan.
 */

const mac = "02:ee:00:00:00:01";

/** What `plexusctl migrate` writes on every node that had Multus. */
const likeMultus = { strictness: "multus" };

/** The result of an IPAM plugin. */
function leased(...addresses: string[]): string {
  const ips = addresses.map((address) => ({ address }));
  return JSON.stringify({ cniVersion: "1.0.0", ips });
}

test.beforeAll(async ({ node, plugins }) => {
  node.cniPath = [plugins.binDir, cniPluginDir()];
  await plugins.install("dhcp", "whereabouts");
  await node.lab.addUplink("up0");
  await node.lab.addUplink("hd0");
  const noIpam = { isGateway: false, ipam: {} };
  await node.nad("host-device", list("host-device", { type: "host-device", device: "hd0" }));
  await node.nad("no-ipam", bridge("no-ipam", 71, noIpam));
  await node.nad("dhcp", macvlan("dhcp", 72, { ipam: { type: "dhcp" } }));
  const whereabouts = { isGateway: false, ipam: { type: "whereabouts", range: "10.73.0.0/24" } };
  await node.nad("whereabouts", bridge("whereabouts", 73, whereabouts));
});

const cases = [
  ["host-device", { mac }, "mac", mac, /^[0-9a-f:]{17}$/],
  ["no-ipam", { ips: ["10.71.0.9/24"] }, "ips", "10.71.0.9/24", "no address"],
  ["dhcp", { ips: ["10.72.0.9/24"] }, "ips", "10.72.0.9/24", "10.72.0.100/24"],
  ["alpha", { bandwidth: { ingressRate: 1000 } }, "bandwidth", '{"ingressRate":1000}', undefined],
] as const;

test.for(cases)(
  "%s with %j: the pod starts as with Multus, and network-status and log name what was ignored",
  async ([network, request, key, asked, got], { node, plugins }) => {
    await plugins.script("dhcp", "ADD", { stdout: leased("10.72.0.100/24") });
    const networks = [{ name: network, ...request }];
    const before = await node.hostState();
    const strict = await node.pod(`strict-${network}`, { networks });
    expect(errorOf(await strict.add())).toMatchObject({ code: 100 });
    expect(await node.changesSince(before, ["attachment records", "address leases"])).toEqual([]);

    node.confExtra = likeMultus;
    const pod = await node.pod(`pod-${network}`, { networks });
    await pod.mustAdd();
    const [, status] = await pod.status();
    const ignored = status?.["plexus.dev/ignored-requests"] as { got?: string }[];
    expect(ignored).toMatchObject([{ key, asked }]);
    if (got instanceof RegExp) expect(ignored[0]?.got).toMatch(got);
    else expect(ignored[0]?.got).toBe(got);
    expect(node.log).toContain(`default/${network} (net1): `);
    await pod.mustDel();
    node.confExtra = {};
  },
);

needsPlexusd("explain asks it", () => {
  test.for(cases)(
    "explain names what was ignored of %s with %j",
    async (row, { node, plugins }) => {
      const [network, request, , asked] = row;
      await plugins.script("dhcp", "ADD", { stdout: leased("10.72.0.100/24") });
      node.confExtra = likeMultus;
      const pod = await node.pod(`why-${network}`, { networks: [{ name: network, ...request }] });
      await pod.mustAdd();
      const advice = await explained(node.socketPath, `default/why-${network}`);
      expect(advice).toMatchObject({ finding: "IgnoredRequest", ok: false });
      expect(advice.sentence).toContain(asked);
      await pod.mustDel();
      node.confExtra = {};
    },
  );
});

test("whereabouts, which reads only CNI_ARGS, gets two requested addresses there as one list", async ({
  node,
  plugins,
}) => {
  const ips = ["10.73.0.8/24", "10.73.0.9/24"];
  await plugins.script("whereabouts", "ADD", { stdout: leased(...ips) });
  node.confExtra = likeMultus;
  const pod = await node.newPod({ networks: [{ name: "whereabouts", ips }] });
  await pod.mustAdd();
  expect(await pod.addresses("net1")).toEqual(ips);
  const calls = (await plugins.executions()).filter(({ type }) => type === "whereabouts");
  expect(calls[0]?.cni.CNI_ARGS).toMatch(/;IP=10\.73\.0\.8\/24,10\.73\.0\.9\/24$/);
  await pod.mustDel();
  node.confExtra = {};
});

needsPlexusd("doctor asks it", () => {
  test("doctor names the setting that allows a pod's undeclared request", async ({ node }) => {
    const pod = await node.pod("undeclared", { networks: [{ name: "no-ipam", mac }] });
    expect(errorOf(await pod.add())).toMatchObject({ code: 100 });
    const command = [distPath("plexusctl.js"), "doctor", "-o", "json", "--socket", node.socketPath];
    const { stdout } = await execa(nodeBinary(), command, { reject: false });
    const findings = JSON.parse(stdout) as { check: string; text: string }[];
    const own = findings.find(({ text }) => text.includes("default/undeclared"));
    expect(own?.check).toBe("attaching pods");
    expect(own?.text).toMatch(/UndeclaredRequest: .*strictness: multus/);
    node.confExtra = likeMultus;
    await pod.mustAdd();
    expect((await pod.links()).net1?.address).toBe(mac);
    await pod.mustDel();
    node.confExtra = {};
  });
});
