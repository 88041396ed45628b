import { expect, test } from "vitest";
import { EngineLab, expectError, type LabOptions, network } from "#engine/testing/engine-lab.ts";
import { FakeDevices } from "#engine/testing/fake-devices.ts";
import type { Json, JsonObject } from "#lib/json.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

const web = { pod: "default/web" };
const resource = "vendor.example/rail";
const needs = { "k8s.v1.cni.cncf.io/resourceName": resource };
const each = (value: string) => ({ ...needs, "plexus.dev/each-device": value });
const pci = (n: number): string => `0000:03:02.${n}`;

/** The pod `web` with `rails` (each device), `one` (a device of the same resource) and `plain`. */
function labWith(networks: Json, devices: FakeDevices, options: LabOptions = {}): EngineLab {
  const lab = new EngineLab({ deviceSources: [devices], ...options });
  lab.source.addNad("default/rails", network("net-r", "sriov"), each("true"));
  lab.source.addNad("default/one", network("net-o", "sriov"), each("false"));
  lab.source.addNad("default/plain", network("net-p", "bridge"));
  const text = typeof networks === "string" ? networks : JSON.stringify(networks);
  lab.source.addPod({ name: "web", annotations: { [networksAnnotation]: text } });
  return lab;
}

const allocated = (...ids: string[]): FakeDevices => new FakeDevices().allocate(resource, ...ids);

/** `interface device` of each attachment but the default network's. */
function attached(lab: EngineLab): string[] {
  const adds = lab.plugins.calls.filter(({ command }) => command === "ADD").slice(1);
  return adds.map(({ ifName, conf }) => [ifName, conf.deviceID ?? []].flat().join(" "));
}

test("one element attaches each device of its resource in PCI order, and later names follow", async () => {
  const order = [
    "0000:0a:00.1",
    "10000:01:00.0",
    "mlx5_core.sf.10",
    "ffff:01:00.0",
    "0000:0A:00.0",
  ];
  const lab = labWith("plain,rails,plain", allocated(...order, "mlx5_core.sf.9"));
  lab.deviceInfo.files.set(
    "/var/run/k8s.cni.cncf.io/devinfo/dp/vendor.example-rail-0000:0a:00.1-device.json",
    '{"type":"pci"}',
  );
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  const expected = ["0000:0A:00.0", "0000:0a:00.1", "ffff:01:00.0", "10000:01:00.0"];
  const named = [...expected, "mlx5_core.sf.10", "mlx5_core.sf.9"].map(
    (id, i) => `net${i + 2} ${id}`,
  );
  expect(attached(lab)).toEqual(["net1", ...named, "net8"]);
  const status = lab.publisher.status("default/web");
  expect(status.map((entry) => `${entry.interface} ${entry.name}`).slice(2, 8)).toEqual(
    named.map((name) => `${name.split(" ")[0]} default/rails`),
  );
  expect(status.map((entry) => entry["device-info"])[3]).toEqual({ type: "pci" });
  const record = lab.records.writes.at(-1)?.record.attachments ?? [];
  expect(record.map(({ deviceCount }) => deviceCount)).toEqual([
    ...[undefined, undefined, 6, 6, 6, 6, 6, 6, undefined],
  ]);
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("DEL")).toHaveLength(9);
});

test("networks before it take their devices first, also those that name one", async () => {
  const lab = labWith(
    [{ name: "one" }, { name: "rails" }, { name: "one", deviceID: pci(3) }],
    allocated(pci(1), pci(2), pci(3), pci(4)),
  );
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(attached(lab)).toEqual([
    `net1 ${pci(1)}`,
    `net2 ${pci(2)}`,
    `net3 ${pci(4)}`,
    `net4 ${pci(3)}`,
  ]);
});

test.each(["rails,rails", "rails,one"])(
  "%s: the first network takes all devices",
  async (networks) => {
    const lab = labWith(networks, allocated(pci(1), pci(2)));
    const { json } = await lab.add(web);
    expect(json).toMatchObject({
      code: 100,
      msg: expect.stringContaining(
        "but the 2 of the pod are those of other networks; one with plexus.dev/each-device takes all that are left",
      ),
    });
    expect(lab.journal).toEqual([]);
  },
);

test.each([
  ["interface", "x1"],
  ["mac", "02:00:00:00:00:07"],
  ["ips", ["10.9.0.7/24"]],
  ["infiniband-guid", "00:11:22:33:44:55:66:77"],
  ["portMappings", [{ hostPort: 80, containerPort: 80 }]],
  ["default-route", ["10.0.0.1"]],
  ["ipam-claim-reference", "web.a"],
])("an element with %s attaches one device, and is refused with several", async (key, value) => {
  const conf = { ...network("net-r"), plugins: [{ type: "sriov", capabilities: all }] };
  const outcome = async (...ids: string[]) => {
    const lab = labWith([{ name: "rails", [key]: value } as JsonObject], allocated(...ids));
    lab.source.addNad("default/rails", conf, each("true"));
    return { lab, answer: await lab.add(web) };
  };
  const several = await outcome(pci(1), pci(2));
  const msg = `network default/rails: the pod gets 2 interfaces, one for each device (plexus.dev/each-device); remove ${key} from its element, which can be for only one`;
  expect(several.answer.json).toMatchObject({ code: 100, msg });
  expect(several.lab.journal).toEqual([]);
  const { lab } = await outcome(pci(1));
  expect(lab.plugins.of("sriov", "ADD")).toHaveLength(1);
});

const all = { ips: true, mac: true, portMappings: true, infinibandGUID: true };

test("a deviceID selects one device, and a claim each of its devices", async () => {
  const byId = labWith([{ name: "rails", deviceID: pci(2) }], allocated(pci(1), pci(2)));
  expect(await byId.add(web)).toMatchObject({ exitCode: 0 });
  expect(attached(byId)).toEqual([`net1 ${pci(2)}`]);

  const claims = ["left", "right", "left"].map((claim) => ({ claim, request: "r" }));
  const dra = allocated(pci(3), pci(2), pci(1)).claim(resource, ...claims);
  const byClaim = ["left", "right"].map((claim) => ({
    name: "rails",
    "dev.plexus.resourceClaim": { claim },
  }));
  const lab = labWith(byClaim, dra);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(attached(lab)).toEqual([`net1 ${pci(1)}`, `net2 ${pci(3)}`, `net3 ${pci(2)}`]);
});

test("without a device it is a network that lacks one", async () => {
  expectError(await labWith("rails", allocated()).add(web), 100, "was allocated 0 of the 1");
  const multus = labWith("rails", allocated(), { config: { strictness: "multus" } });
  expect(await multus.add(web)).toMatchObject({ exitCode: 0 });
  expect(attached(multus)).toEqual(["net1"]);
});

test("the limit of networks counts each of its interfaces", async () => {
  const ids = Array.from({ length: 32 }, (_, i) => `dev${i}`);
  const lab = labWith("rails", allocated(...ids));
  expectError(await lab.add(web), 100, "the pod");
  expect(lab.journal).toEqual([]);
  expect(await labWith("rails", allocated(...ids.slice(1))).add(web)).toMatchObject({
    exitCode: 0,
  });
});

test("a default network with several devices is refused", async () => {
  const lab = labWith("", allocated(pci(1), pci(2)), { conf: { clusterNetwork: "main" } });
  lab.source.addNad("kube-system/main", network("main", "sriov"), each("true"));
  expectError(await lab.add(web), 100, "the default network can have only one");
});

test("plugins that can serve one attachment of a network are refused for several", async () => {
  const lab = labWith("rails", allocated(pci(1), pci(2)));
  const conf = { ...network("net-r"), plugins: [{ type: "sriov", ipMasq: true }] };
  lab.source.addNad("default/rails", conf, each("true"));
  expectError(await lab.add(web), 100, "cannot be attached twice to one pod");
});

test.each(["yes", "True", ""])("the annotation is true or false, not %j", async (value) => {
  const lab = labWith("rails", allocated(pci(1)));
  lab.source.addNad("default/rails", network("net-r", "sriov"), each(value));
  const msg = `network default/rails: annotation plexus.dev/each-device: must be true or false, not ${JSON.stringify(value)}`;
  expect((await lab.add(web)).json).toMatchObject({ code: 100, msg });
});
