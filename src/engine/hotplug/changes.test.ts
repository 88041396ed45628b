import { expect, test } from "vitest";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { selectionElement } from "#npwg/selection/network-selection.ts";
import { parseNetworkSelections } from "#npwg/selection/selection.ts";
import { networkChanges } from "./changes.ts";

/** The attachments that an annotation gets, on net1 and so on. */
function attachedFor(annotation: string): RecordedAttachment[] {
  return selectionsOf(annotation).map((selection, i) => ({
    ...attachment(`${selection.namespace}/${selection.name}`, selection.ifName ?? `net${i + 1}`),
    selection: selectionElement(selection),
  }));
}

function attachment(displayName: string, ifName: string): RecordedAttachment {
  const rest = { conf: {}, cniArgs: [], capabilityArgs: {}, searchPath: [] };
  return { displayName, ifName, isDefault: ifName === "eth0", state: "attached", ...rest };
}

function selectionsOf(annotation: string) {
  return parseNetworkSelections(annotation, { podNamespace: "default" });
}

/** `-ifName` for each removal and `+namespace/name` for each addition, in order. */
function changes(
  attachments: readonly RecordedAttachment[],
  annotation: string,
  configured: readonly string[] = [],
): string[] {
  const all = [attachment("default-net", "eth0"), ...attachments];
  const found = networkChanges({ attachments: all }, selectionsOf(annotation), {
    configured,
  });
  return [
    ...found.removals.map(({ ifName }) => `-${ifName}`),
    ...found.additions.map(({ selection: { namespace, name } }) => `+${namespace}/${name}`),
  ];
}

const full = {
  name: "a",
  interface: "net7",
  mac: "02:00:00:00:00:0A",
  ips: ["10.0.0.9/24"],
  portMappings: [{ hostPort: 80, containerPort: 8080, protocol: "TCP" }],
  bandwidth: { ingressRate: 1000, egressRate: 2000 },
  "cni-args": { one: 1, two: { three: 3 } },
};

test.each([
  { how: "the short form", from: '[{"name":"a"},{"name":"b"}]', to: "a,b" },
  { how: "the namespace", from: "a,b", to: "default/a, default/b" },
  { how: "white space", from: "a,b", to: '[ {"name" : "a"},\n {"name" : "b"} ]' },
  { how: "the order", from: "a,b", to: "b,a" },
  { how: "the order of equal networks", from: "a,a,b", to: "a,b,a" },
  { how: "the order of keys", from: JSON.stringify([full]), to: reversedKeys(full) },
  {
    how: "the case of a MAC address",
    from: JSON.stringify([full]),
    to: JSON.stringify([{ ...full, mac: full.mac.toLowerCase() }]),
  },
])("networkChanges() finds none if only $how changed [H-28]", ({ from, to }) => {
  expect(changes(attachedFor(from), to)).toEqual([]);
});

function reversedKeys(element: object): string {
  return JSON.stringify([Object.fromEntries(Object.entries(element).toReversed())]);
}

test.each([
  { key: "name", value: "b", added: "+default/b" },
  { key: "namespace", value: "other", added: "+other/a" },
  { key: "interface", value: "net8" },
  { key: "mac", value: "02:00:00:00:00:0b" },
  { key: "ips", value: ["10.0.0.10/24"] },
  { key: "infiniband-guid", value: "00:11:22:33:44:55:66:77" },
  { key: "portMappings", value: [{ hostPort: 81, containerPort: 8080 }] },
  { key: "bandwidth", value: { ingressRate: 1001, egressRate: 2000 } },
  { key: "cni-args", value: { one: 1, two: { three: 4 } } },
  { key: "default-route", value: ["10.0.0.1"] },
  { key: "deviceID", value: "0000:01:00.1" },
  { key: "ipam-claim-reference", value: "web.a" },
])(
  "networkChanges() removes and adds an element whose $key changed [H-25] [H-28]",
  ({ key, value, added = "+default/a" }) => {
    const edited = JSON.stringify([{ ...full, [key]: value }]);
    expect(changes(attachedFor(JSON.stringify([full])), edited)).toEqual(["-net7", added]);
  },
);

test.each([
  {
    title: "removes the last attached first",
    from: "a,b,c",
    to: "b",
    expected: ["-net3", "-net1"],
  },
  {
    title: "adds in the annotation's order",
    from: "b",
    to: "c,b,a",
    expected: ["+default/c", "+default/a"],
  },
  { title: "counts occurrences", from: "a,a", to: "a", expected: ["-net2"] },
  { title: "adds another occurrence", from: "a", to: "a,a", expected: ["+default/a"] },
  { title: "removes all without an annotation", from: "a,b", to: "", expected: ["-net2", "-net1"] },
])("networkChanges() $title [H-25] [H-27]", ({ from, to, expected }) => {
  expect(changes(attachedFor(from), to)).toEqual(expected);
});

test.each([
  { left: "attempted", from: "a,b", expected: ["-net1", "+default/a"] },
  { left: "detaching", from: "a,b", expected: ["-net1", "+default/a"] },
  { left: "owed", from: "a,b", expected: ["-net1", "+default/a"] },
  { left: "attempted", from: "b", expected: ["-net1"] },
] as const)("networkChanges() removes and adds what was left $left", ({ left, from, expected }) => {
  const [first, second] = attachedFor("a,b") as [RecordedAttachment, RecordedAttachment];
  expect(changes([{ ...first, state: left }, second], from)).toEqual(expected);
});

test.each([
  { title: "never removes them", annotation: "", expected: [] },
  { title: "counts them for their network", annotation: "a,b", expected: [] },
  {
    title: "counts them for their interface",
    annotation: '[{"name":"a","interface":"net1"},{"name":"b","interface":"net5"}]',
    expected: ["+default/b"],
  },
  {
    title: "counts configured ones once",
    annotation: "a,a",
    configured: ["default/a"],
    expected: ["+default/a"],
  },
  {
    title: "does not count configured ones for further requests",
    annotation: '[{"name":"a","mac":"02:00:00:00:00:01"}]',
    configured: ["default/a"],
    expected: ["+default/a"],
  },
])("without elements it $title [H-29] [H-30]", ({ annotation, expected, configured = [] }) => {
  const recorded = [attachment("default/a", "net1"), attachment("default/b", "net2")];
  expect(changes(recorded, annotation, configured)).toEqual(expected);
});

test.each([
  { title: "the only attachment", from: "a,b", to: "b", expected: [] },
  { title: "no other network", from: "b,a", to: "", expected: ["-net1"] },
  { title: "none beside one that is requested", from: "a,a", to: "a", expected: ["-net2"] },
  { title: "all of several", from: "a,b,a", to: "b", expected: [] },
  { title: "none that is not attached", from: "b", to: "b", expected: [] },
  {
    title: "one although an element names its interface, which is then refused",
    from: "a@x1",
    to: "b@x1",
    expected: ["+default/b"],
  },
  {
    title: "none that is attached anew",
    from: "a@x1,b",
    to: "a@x2,b",
    expected: ["-x1", "+default/a"],
  },
])("networkChanges() keeps $title of a configured network [H-29]", ({ from, to, expected }) => {
  expect(changes(attachedFor(from), to, ["default/a"])).toEqual(expected);
});

test("networkChanges() counts attachments without an element first for elements that name them", () => {
  const recorded = [attachment("default/a", "net1"), attachment("default/a", "net2")];
  expect(changes(recorded, "a,a@net1")).toEqual([]);
});

test.each([
  { ifName: "net12", expected: [] },
  { ifName: "net1x", expected: ["-net1x", "+default/a"] },
  { ifName: "vnet1", expected: ["-vnet1", "+default/a"] },
])("networkChanges() without interface keeps a generated name only: $ifName", (scene) => {
  expect(changes(attachedFor(`a@${scene.ifName}`), "a")).toEqual(scene.expected);
});

test("networkChanges() keeps no element's attachment beside that of the configuration [H-29]", () => {
  const [own] = attachedFor("a@x1");
  const recorded = [attachment("default/a", "net1"), own as RecordedAttachment];
  expect(changes(recorded, "", ["default/a"])).toEqual(["-x1"]);
});

test("networkChanges() adds the network of the default network, which counts for no element [H-29]", () => {
  const attachments = [attachment("default/a", "eth0")];
  const { additions } = networkChanges({ attachments }, selectionsOf("a"), { configured: [] });
  expect(additions).toHaveLength(1);
});

test.each([
  { title: "the one of its interface", from: "b@x1,a@x2", to: "a@x2", expected: ["a: x2"] },
  { title: "none of another network", from: "b@x1", to: "a@x1", expected: ["a: none"] },
  { title: "none on another interface", from: "a@x1", to: "a@x2", expected: ["a: none"] },
  { title: "none with other settings", from: "a", to: '[{"name":"a","mac":"02:00:00:00:00:01"}]' },
  { title: "one on a generated interface", from: "a@x1,a@net7", to: "a", expected: ["a: net7"] },
  {
    title: "the one of the same element, and none that requested its interface",
    from: "a@net1,a",
    to: "a",
    expected: ["a: net2"],
  },
  {
    title: "for each element another one",
    from: "a,a",
    to: "a,a,a",
    expected: ["a: net2", "a: net1", "a: none"],
  },
  {
    title: "none whose interface another element requests",
    from: "a",
    to: "a,b@net1",
    expected: ["a: none", "b: none"],
  },
])("networkChanges() renews what is not attached: $title", ({ from, to, expected }) => {
  const attachments = attachedFor(from).map((each) => ({ ...each, state: "owed" as const }));
  const { additions } = networkChanges({ attachments }, selectionsOf(to), { configured: [] });
  const renewals = additions.map(
    ({ selection, renewed }) => `${selection.name}: ${renewed?.ifName ?? "none"}`,
  );
  expect(renewals).toEqual(expected ?? ["a: none"]);
});

test("networkChanges() renews an attachment that is to be refreshed, and no other one", () => {
  const attachments = attachedFor("a,a");
  const options = { configured: [], refreshed: "net1" };
  const found = networkChanges({ attachments }, selectionsOf("a,a"), options);
  const renewed = found.additions.map((each) => each.renewed);
  expect([found.removals, renewed]).toEqual([[attachments[0]], [attachments[0]]]);
});

test.each([
  { what: "leaves the other elements", from: "a,b", to: "a,c,nope", renewed: ["net1"] },
  { what: "removes nothing that no element requests", from: "a,b", to: "b,c", renewed: [] },
])("networkChanges() of a refresh $what", ({ from, to, renewed }) => {
  const options = { configured: [], refreshed: "net1" };
  const found = networkChanges({ attachments: attachedFor(from) }, selectionsOf(to), options);
  expect(found.removals.map(({ ifName }) => ifName)).toEqual(renewed);
  expect(found.additions.map((each) => each.renewed?.ifName)).toEqual(renewed);
});
