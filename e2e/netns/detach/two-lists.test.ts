import { expect } from "vitest";
import { bridge, ptp } from "../../support/networks.ts";
import type { CallOutcome } from "../../support/node/cni-call.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test as nodeTest } from "../../support/node/test.ts";
import type { TestPod } from "../../support/node/test-pod.ts";

/*
 * Two network lists of type plexus on a node, as with CRI-O beside nerdctl. CRI-O collects garbage in every list of its
 * directory, and lists no container in a list that only nerdctl uses. plexusd's file has another default network than both.
 */

const test = nodeTest.extend(
  "daemonConfig",
  { scope: "file" },
  {
    delegates: [ptp("net-cluster", 80)],
    readinessindicatorfile: "/run/never-ready",
  },
);

const lists = { one: ptp("net-one", 81), two: ptp("net-two", 82) };
type List = keyof typeof lists;

const confOf = (node: PlexusNode, list: List): object =>
  node.conf({ cniVersion: "1.1.0", name: list, delegates: [lists[list]] });

function gc(node: PlexusNode, list: List, valid: readonly TestPod[]): Promise<CallOutcome> {
  const listed = valid.map(({ containerId }) => ({ containerID: containerId, ifname: "eth0" }));
  const conf = { ...confOf(node, list), "cni.dev/valid-attachments": listed };
  return node.call({ command: "GC", conf });
}

const addressesOf = async (pod: TestPod): Promise<string[][]> => [
  await pod.addresses("eth0"),
  await pod.addresses("net1"),
];

test.for<{ collected: List; beside: List; listed: boolean }>([
  { collected: "one", beside: "two", listed: true },
  { collected: "one", beside: "two", listed: false },
  { collected: "two", beside: "one", listed: true },
  { collected: "two", beside: "one", listed: false },
])(
  "a GC of the list $collected, which lists its container ($listed), keeps the networks of every container that runs",
  async ({ collected, beside, listed }, { node }) => {
    await node.nad("shared", bridge("net-shared", 83));
    const own = await node.newPod({ networks: "shared" });
    const other = await node.newPod({ networks: "shared" });
    await own.mustAdd({ conf: confOf(node, collected) });
    await other.mustAdd({ conf: confOf(node, beside) });
    const before = [await addressesOf(own), await addressesOf(other)];
    const leases = await node.hostState();

    const outcome = await gc(node, collected, listed ? [own] : []);
    expect(outcome).toMatchObject({ exitCode: 0 });
    expect([await addressesOf(own), await addressesOf(other)]).toEqual(before);
    expect(await node.changesSince(leases, ["address leases", "attachment records"])).toEqual([]);
    await own.ping((await other.addresses("net1"))[0]?.split("/")[0] ?? "", "net1");
    // A leftover would be detached by later calls.
    const status = { command: "STATUS", conf: confOf(node, collected) } as const;
    expect(await node.call(status)).toMatchObject({ exitCode: 0 });
    await other.mustCheck({ conf: confOf(node, beside) });

    await own.mustDel({ conf: confOf(node, collected) });
    await other.mustDel({ conf: confOf(node, beside) });
  },
);

test("a GC detaches a container of its list that is not listed, beside one that is", async ({
  node,
}) => {
  const [kept, stale, other] = [await node.newPod(), await node.newPod(), await node.newPod()];
  for (const pod of [kept, stale]) await pod.mustAdd({ conf: confOf(node, "one") });
  await other.mustAdd({ conf: confOf(node, "two") });
  expect(await gc(node, "one", [kept])).toMatchObject({ exitCode: 0 });
  expect([kept, stale, other].map((pod) => pod.isRecorded)).toEqual([true, false, true]);
  expect(Object.keys(await stale.links())).toEqual([]);
  await kept.mustDel({ conf: confOf(node, "one") });
  await other.mustDel({ conf: confOf(node, "two") });
});
