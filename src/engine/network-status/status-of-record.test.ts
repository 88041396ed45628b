import { expect, test } from "vitest";
import type { CallContext } from "#engine/call/call-context.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { ignoredRequestsKey } from "#npwg/served-requests.ts";
import { statusOfRecord } from "./status-of-record.ts";

const ctx = { config: { auxiliaryCNIChainName: "aux" } } as unknown as CallContext;

const link = (name: string) => ({ name, mac: "02:00:00:00:00:01", sandbox: "/run/netns/x" });

function attachment(changes: Partial<RecordedAttachment>): RecordedAttachment {
  const result = { cniVersion: "1.0.0", interfaces: [link("net1")], ips: [] };
  const conf = { cniVersion: "1.0.0", name: "n", plugins: [{ type: "bridge" }] };
  const network = { displayName: "default/n", isDefault: false, ifName: "net1", conf, result };
  const others = { cniArgs: [], capabilityArgs: {}, searchPath: [] };
  return { ...network, ...others, state: "attached", ...changes };
}

async function statusOf(...attachments: RecordedAttachment[]): Promise<object[]> {
  const pod = { namespace: "default", name: "web", uid: "u1" };
  const record = { containerId: "c1", pod, attachments };
  const { pendingStatus } = await statusOfRecord(ctx, record);
  return JSON.parse(pendingStatus?.[networkStatusAnnotation] ?? "");
}

test("a network that is not attached has no entry in the status", async () => {
  const { result: _, ...attempted } = attachment({ state: "attempted" });
  const shown = attachment({ displayName: "default/shown" });
  const status = await statusOf(attempted, shown);
  expect(status).toMatchObject([{ name: "default/shown" }]);
  expect(status).toHaveLength(1);
});

test("a result without a version is read in that of its network, and the auxiliary chain without interfaces is not shown", async () => {
  const ip = { version: "4", address: "10.1.0.2/24", interface: 0 };
  const result = { interfaces: [link("net1")], ips: [ip] };
  const conf = { cniVersion: "0.3.1", name: "n", plugins: [{ type: "bridge" }] };
  const aux = attachment({ displayName: "aux", result: { cniVersion: "1.0.0" } });
  expect(await statusOf(attachment({ conf, result }), aux)).toMatchObject([{ ips: ["10.1.0.2"] }]);
  expect(await statusOf(aux)).toEqual([]);
});

test("the first entry of a network names the requests that it ignored, and no other", async () => {
  const result = { cniVersion: "1.0.0", interfaces: [link("net1"), link("net2")], ips: [] };
  const status = await statusOf(attachment({ result, ignoredRequests: ["ips"] as never }));
  expect(
    status.map((each) => [Reflect.get(each, "interface"), ignoredRequestsKey in each]),
  ).toEqual([
    ["net1", true],
    ["net2", false],
  ]);
});

test.each(["constructor", "toString", "__proto__"])(
  "interface %s has its addresses",
  async (ifName) => {
    const ip = { address: "10.1.0.2/24", interface: 0 };
    const result = { cniVersion: "1.0.0", interfaces: [link(ifName)], ips: [ip] };
    const named = attachment({ ifName, result });
    expect(await statusOf(named)).toMatchObject([{ ips: ["10.1.0.2"] }]);
    const addresses = { net9: ["10.1.0.9"] };
    expect(await statusOf({ ...named, addresses })).toMatchObject([{ ips: ["10.1.0.2"] }]);
  },
);
