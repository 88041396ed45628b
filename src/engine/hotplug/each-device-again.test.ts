import { expect, test } from "vitest";
import { problemsOf } from "#engine/hotplug/reports/outcome.ts";
import type { AllocatedDevice } from "#engine/ports/devices.ts";
import { network, sandbox } from "#engine/testing/engine-lab.ts";
import { FakeDevices } from "#engine/testing/fake-devices.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { hotPlugLab } from "./testing/hot-plug-lab.ts";

const resource = "vendor.example/rail";
const needs = { "k8s.v1.cni.cncf.io/resourceName": resource };
const each = { ...needs, "plexus.dev/each-device": "true" };
const pci = (n: number): string => `0000:03:02.${n}`;
const ids = [pci(1), pci(2), pci(3)];

type Annotations = Readonly<Record<string, string>>;

async function podWith(
  annotations: Annotations = each,
  devices = new FakeDevices().allocate(resource, ...ids),
) {
  const pod = await hotPlugLab("a", {}, { deviceSources: [devices] });
  const { lab } = pod;
  const define = (of: Annotations, plugin = {}) =>
    lab.source.addNad(
      "default/rails",
      { ...network("net-r"), plugins: [{ type: "sriov", ...plugin }] },
      of,
    );
  define(annotations);
  lab.source.addNad("default/one", network("net-o", "sriov"), needs);
  const has = async () =>
    (await pod.attachments())
      .slice(1)
      .map(({ ifName, displayName, device }) =>
        [ifName, displayName, device?.id ?? []].flat().join(" "),
      );
  return { pod, lab, define, has };
}

/** As `inspect: [heal]` records a lost interface. */
async function lose({ lab }: Awaited<ReturnType<typeof podWith>>, ifName: string): Promise<void> {
  const stored = await lab.records.load(sandbox);
  if (stored === undefined) throw new Error("no record");
  const attachments = stored.record.attachments.map((a) =>
    a.ifName === ifName ? { ...a, state: "detaching" as const } : a,
  );
  await lab.records.update({ ...stored.record, addEnded: true, attachments }, stored.plan);
}

test("a refresh of one rail leaves the device of an element that is being retried", async () => {
  const { pod, lab, has } = await podWith();
  lab.plugins.script("sriov ADD", ({ conf }) =>
    conf.name === "net-o" ? failed(5, "busy") : undefined,
  );
  await pod.edit("a,one,rails");
  await pod.again("net3");
  lab.plugins.script("sriov ADD", () => undefined);
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect((await has()).toSorted()).toEqual([
    ...["net1 default/a", `net2 default/one ${pci(1)}`, `net3 default/rails ${pci(2)}`],
    `net4 default/rails ${pci(3)}`,
  ]);
});

test("an edit attaches as many as an element lacks, and each can be refreshed then", async () => {
  const { pod, lab } = await podWith();
  lab.plugins.script("sriov ADD", ({ ifName }) =>
    ifName === "net4" ? failed(5, "busy") : undefined,
  );
  await pod.edit("a,one,rails");
  lab.plugins.script("sriov ADD", () => undefined);
  await pod.edit("a,rails");
  const rails = (await pod.attachments()).filter(
    ({ displayName }) => displayName === "default/rails",
  );
  expect(rails.map(({ deviceCount }) => deviceCount)).toEqual([2, 2]);
  expect(await pod.again("net3")).toMatchObject({ operations: [{ op: "remove" }, { op: "add" }] });
});

test("an attachment can be refreshed although its definition got the annotation since", async () => {
  const { pod, define } = await podWith(needs);
  await pod.edit("a,rails");
  define(each);
  const { problems = [] } = await pod.again("net2");
  expect(problems.map(({ error }) => error.message)).toEqual([]);
});

test("a lost interface heals although its definition got the annotation since", async () => {
  const own = await podWith(needs);
  await own.pod.edit("a,rails");
  own.define(each);
  await lose(own, "net2");
  const outcome = await own.pod.again();
  expect(problemsOf(outcome).map(({ error }) => error.message)).toEqual([]);
  expect(outcome.state).toBe("settled");
});

test("an element whose one attachment could not be detached is attached again with the devices of now", async () => {
  const { pod, lab, has } = await podWith(
    each,
    new FakeDevices().allocate(resource, pci(1), pci(2)),
  );
  await pod.edit("a,one,rails");
  lab.plugins.script("sriov DEL", ({ ifName }) =>
    ifName === "net3" ? failed(5, "busy") : undefined,
  );
  await pod.edit("a,one");
  lab.plugins.script("sriov DEL", () => undefined);
  const outcome = await pod.edit("a,rails");
  expect(problemsOf(outcome).map(({ error }) => error.message)).toEqual([]);
  expect((await has()).filter((line) => line.includes("default/one"))).toEqual([]);
});

test("a refreshed rail keeps its interface", async () => {
  const { pod, has } = await podWith();
  await pod.edit("a,rails");
  await pod.edit("rails");
  const before = (await has()).toSorted();
  await pod.again("net3");
  expect((await has()).toSorted()).toEqual(before);
});

test("a rail keeps its interface when it heals", async () => {
  const own = await podWith();
  await own.pod.edit("a,rails");
  await own.pod.edit("rails");
  const before = (await own.has()).toSorted();
  await lose(own, "net3");
  await own.pod.again();
  expect((await own.has()).toSorted()).toEqual(before);
});

test("a refreshed rail keeps its addresses,", async () => {
  const { pod, lab, define } = await podWith();
  define(each, { capabilities: { ips: true } });
  await pod.edit("a,rails");
  await pod.again("net3");
  expect(lab.plugins.of("sriov", "ADD").at(-1)?.conf.runtimeConfig).toHaveProperty("ips");
});

test.each(["net1", "net2", "net3"])(
  "an element may request the name of any rail: %s",
  async (name) => {
    const { pod, has } = await podWith();
    await pod.edit("rails");
    expect(problemsOf(await pod.edit(`rails,b@${name}`))).toEqual([]);
    expect(await has()).toContain(`${name} default/b`);
  },
);

test("a claim of GPUs and NICs: the devices of the definition's resource are attached", async () => {
  const devices = new FakeDevices();
  const of = (id: string, request: string): AllocatedDevice => ({
    ...{ id, source: "ResourceClaim pair" },
    claims: [{ claim: "pair", request }],
  });
  devices.devicesOf = async () =>
    new Map([
      [resource, [of(pci(1), "nic"), of(pci(2), "nic2")]],
      // Its driver publishes resource.kubernetes.io/pciBusID, and no k8s.cni.cncf.io/resourceName.
      ["", [of("0000:05:00.0", "gpu")]],
    ]);
  const { pod, has } = await podWith(each, devices);
  await pod.edit([{ name: "rails", "dev.plexus.resourceClaim": { claim: "pair" } }]);
  expect(await has()).toEqual([`net1 default/rails ${pci(1)}`, `net2 default/rails ${pci(2)}`]);
});

test("a device that an element names is not taken by an earlier element with a claim", async () => {
  const requests = ids.map(() => ({ claim: "c", request: "r" }));
  const devices = new FakeDevices().allocate(resource, ...ids).claim(resource, ...requests);
  const { pod } = await podWith(each, devices);
  const rails = { name: "rails", "dev.plexus.resourceClaim": { claim: "c" } };
  expect(problemsOf(await pod.edit([rails, { name: "one", deviceID: pci(3) }]))).toEqual([]);
});
test("a claim and a deviceID select the claim's device of that ID", async () => {
  const requests = ids.map(() => ({ claim: "c", request: "r" }));
  const devices = new FakeDevices().allocate(resource, ...ids).claim(resource, ...requests);
  const { pod, has } = await podWith(each, devices);
  await pod.edit([{ name: "rails", "dev.plexus.resourceClaim": { claim: "c" }, deviceID: pci(2) }]);
  expect(await has()).toEqual([`net1 default/rails ${pci(2)}`]);
});
