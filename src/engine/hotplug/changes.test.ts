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
  { title: "none beside one that is requested", from: "a,a", to: "a", expected: ["-net2"] },
  { title: "all of several", from: "a,b,a", to: "b", expected: [] },
  {
    title: "none that is attached anew",
    from: "a@x1,b",
    to: "a@x2,b",
    expected: ["-x1", "+default/a"],
  },
])("networkChanges() keeps $title of a configured network [H-29]", ({ from, to, expected }) => {
  expect(changes(attachedFor(from), to, ["default/a"])).toEqual(expected);
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
  { what: "leaves the other elements", from: "a,b", to: "a,c,nope", renewed: ["net1"] },
  { what: "removes nothing that no element requests", from: "a,b", to: "b,c", renewed: [] },
])("networkChanges() of a refresh $what", ({ from, to, renewed }) => {
  const options = { configured: [], refreshed: "net1" };
  const found = networkChanges({ attachments: attachedFor(from) }, selectionsOf(to), options);
  expect(found.removals.map(({ ifName }) => ifName)).toEqual(renewed);
  expect(found.additions.map((each) => each.renewed?.ifName)).toEqual(renewed);
});
