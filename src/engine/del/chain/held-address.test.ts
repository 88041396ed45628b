import { expect, test, vi } from "vitest";
import { EngineLab, expectError, type LabOptions } from "#engine/testing/engine-lab.ts";
import { exited, failed } from "#engine/testing/fake-plugins.ts";
import type { JsonObject } from "#lib/json.ts";

/* The DEL of `firewall` removes the rules of the addresses in prevResult, in any sandbox. */

const shared = "10.0.0.7/24";
const own = "10.0.0.8/24";

const callOf = (id: string, conf: JsonObject = {}) => ({
  conf,
  env: { CNI_CONTAINERID: id, CNI_NETNS: `/run/netns/${id}` },
});

/** A network of plugins, each as `type` or `type:ipam`. */
function chain(...types: string[]): JsonObject {
  const plugins = types.map((each) => {
    const [type = "", ipam = "host-local"] = each.split(":");
    return { type, ipam: { type: ipam } };
  });
  return {
    delegates: [{ cniVersion: "1.0.0", name: types.join("-").replaceAll(":", "-"), plugins }],
  };
}

/** `c1` and `c2` with the same address, and `c1` with another one. */
async function twoSandboxes(types: string[], second = types, options: LabOptions = {}) {
  const lab = new EngineLab({ conf: chain(...types), ...options });
  for (const id of ["c1", "c2"]) lab.kernel.addNamespace(`/run/netns/${id}`);
  for (const type of ["bridge", "vendor"]) {
    lab.plugins.script(`${type} ADD`, ({ containerId, netns, ifName }) => {
      lab.kernel.addLink(netns, ifName);
      const ips = [shared, ...(containerId === "c1" ? [own] : [])];
      return exited(0, { cniVersion: "1.0.0", ips: ips.map((address) => ({ address })) });
    });
  }
  expect(await lab.add(callOf("c1"))).toMatchObject({ exitCode: 0 });
  const attachOther = async () => {
    expect(await lab.add(callOf("c2", chain(...second)))).toMatchObject({ exitCode: 0 });
    lab.plugins.calls.length = 0;
  };
  return { lab, attachOther };
}

/** The addresses that the DELs of a plugin got, DEL by DEL. */
function addressesFor(lab: EngineLab, type: string): unknown[] {
  const results = lab.plugins.of(type, "DEL").map(({ conf }) => conf.prevResult as JsonObject);
  return results.map(({ ips }) => (ips as JsonObject[]).map(({ address }) => address));
}

test("del() that is repeated executes only the plugins of a chain that have not succeeded", async () => {
  const { lab, attachOther } = await twoSandboxes(["bridge", "firewall", "tuning"]);
  lab.plugins.script("bridge DEL", failed(5, "busy"));
  expect(await lab.del(callOf("c1"))).toMatchObject({ exitCode: 1 });
  expect(lab.records.writes.at(-1)?.plan.steps.map(({ call }) => call.type)).toEqual(["bridge"]);
  lab.plugins.unscript("bridge DEL");
  await attachOther();
  expect(await lab.del(callOf("c1"))).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["bridge DEL eth0"]);
});

test("del() that is repeated passes no address that another sandbox has now", async () => {
  const { lab, attachOther } = await twoSandboxes(["bridge", "firewall"]);
  lab.plugins.script("firewall DEL", failed(5, "busy"));
  expect(await lab.del(callOf("c1"))).toMatchObject({ exitCode: 1 });
  lab.plugins.unscript("firewall DEL");
  await attachOther();
  expect(await lab.del(callOf("c1"))).toMatchObject({ exitCode: 0 });
  expect(addressesFor(lab, "firewall")).toEqual([[own]]);
  expect(addressesFor(lab, "bridge"), "it does not read them").toEqual([[shared, own]]);
  expect(await lab.del(callOf("c2"))).toMatchObject({ exitCode: 0 });
  expect(addressesFor(lab, "firewall"), "the last one removes the rules").toEqual([
    [own],
    [shared],
  ]);
});

test("del() passes no address that another sandbox got while a plugin hung", async () => {
  const { lab, attachOther } = await twoSandboxes(["bridge", "firewall", "vendor"]);
  lab.plugins.script("vendor DEL", async () => {
    lab.advance(2000);
    await attachOther();
    return undefined;
  });
  expect(await lab.del(callOf("c1"))).toMatchObject({ exitCode: 0 });
  expect(addressesFor(lab, "firewall")).toEqual([[own]]);
});

interface Other {
  readonly what: string;
  readonly types?: string[];
  readonly second?: string[];
  readonly change?: (lab: EngineLab) => unknown;
  readonly gets: readonly string[];
}

test.each<Other>([
  { what: "has it in another network", second: ["vendor", "firewall"], gets: [shared, own] },
  { what: "runs with it without that plugin", second: ["bridge", "tuning"], gets: [shared, own] },
  { what: "has no plugin known for that", types: ["bridge:leases", "vendor"], gets: [shared, own] },
  {
    what: "is being attached with an unknown one",
    change: ({ records }) =>
      records.changeAttachments(() => ({ state: "attempted", result: undefined as never })),
    gets: [shared, own],
  },
  {
    what: "owes its DEL",
    change: ({ records }) => records.changeAttachments(() => ({ state: "owed" })),
    gets: [shared, own],
  },
  {
    what: "is being detached",
    change: (lab) => lab.records.beginDel({ containerId: "c2", ifName: "eth0" }, "2026-01-01"),
    gets: [shared, own],
  },
  {
    what: "has a damaged record",
    change: (lab) => lab.records.damage({ containerId: "c2", ifName: "eth0" }, "record"),
    gets: [own],
  },
  {
    what: "has a damaged record that does not name the network",
    second: ["vendor", "firewall"],
    change: (lab) => lab.records.damage({ containerId: "c2", ifName: "eth0" }, "record"),
    gets: [shared, own],
  },
])("del() passes addresses $gets if another sandbox $what [R-0.4-12] [R-0.4-30]", async (scene) => {
  const { types = ["bridge", "firewall"], second = types, change, gets } = scene;
  const { lab, attachOther } = await twoSandboxes(types, second);
  await attachOther();
  change?.(lab);
  expect(await lab.del(callOf("c1"))).toMatchObject({ exitCode: 0 });
  expect(addressesFor(lab, lab.plugins.calls[0]?.type ?? "")).toEqual([gets]);
});

test("a DEL with thousands of addresses lists the records once, with other plugins never", async () => {
  const lab = new EngineLab({ conf: chain("bridge", "vendor", "firewall") });
  const ips = Array.from({ length: 3900 }, (_, i) => ({ address: `10.${i >> 8}.${i & 255}.1/8` }));
  lab.plugins.script("bridge ADD", exited(0, { cniVersion: "1.0.0", ips }));
  expect(await lab.add()).toMatchObject({ exitCode: 0 });
  const listed = vi.spyOn(lab.records, "list");
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  expect(listed).toHaveBeenCalledTimes(1);
});

test("del() fails while a record cannot be read, which may have the address", async () => {
  const { lab, attachOther } = await twoSandboxes(["bridge", "firewall"]);
  await attachOther();
  lab.records.damage({ containerId: "c2", ifName: "eth0" }, "record");
  lab.records.unreadable.add("c2@eth0");
  expectError(await lab.del(callOf("c1")), 11, "attachment record c2@eth0");
  expect(lab.plugins.log()).toEqual([]);
});

test("del() fails while another sandbox is being attached with the address", async () => {
  const { lab, attachOther } = await twoSandboxes(["bridge", "firewall"]);
  await attachOther();
  const { record, plan } = lab.records.writes.at(-1)!;
  const ofAttempt = { state: "attempted", result: undefined as never } as const;
  lab.records.changeAttachments(() => ({ ...ofAttempt, capabilityArgs: { ips: [shared] } }));
  expectError(
    await lab.del(callOf("c1")),
    11,
    "for address 10.0.0.7: c2 is being attached with it",
  );
  expect(lab.plugins.log()).toEqual([]);
  lab.records.put(record, plan);
  expect(await lab.del(callOf("c1"))).toMatchObject({ exitCode: 0 });
});
