import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { FakeResourceApi } from "#devices/testing/fake-resource-api.ts";
import { claimObject, draPod, sliceObject } from "#devices/testing/resource-objects.ts";
import { type DeviceLookup, ResourceApiUnavailableError } from "#engine/ports/devices.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import type { JsonObject } from "#lib/json.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { ClaimedDevices } from "./claimed-devices.ts";

const vf = "vendor.example/vf";
const pci = (n: number): string => `0000:03:02.${n}`;
const networkAttributes = (id: string, resourceName = vf): JsonObject => ({
  "k8s.cni.cncf.io/deviceID": { string: id },
  "k8s.cni.cncf.io/resourceName": { string: resourceName },
});
/** Four devices with the attributes of networks. */
const slice = sliceObject({
  devices: [0, 1, 2, 3].map((n) => ({ name: `vf-${n}`, attributes: networkAttributes(pci(n)) })),
});
const mine = [claimObject("mine", [{ device: "vf-1" }])];
const oneClaim = draPod({ spec: [{ name: "nic", resourceClaimName: "mine" }] });

function lookup(object: JsonObject | undefined = oneClaim): DeviceLookup {
  return {
    pod: { namespace: "default", name: "web", uid: "uid-web", annotations: {} },
    networks: [{ displayName: "default/net", resourceName: vf }],
    podObject: async () => object,
    signal: new AbortController().signal,
  };
}

async function open({ timeoutMs = 5000 } = {}) {
  const api = new FakeResourceApi();
  api.slices = [slice];
  const logger = new FakeLogger();
  const kubeletDir = await temporaryDirectory();
  const devices = new ClaimedDevices({ api, kubeletDir, logger, timeoutMs });
  /** The IDs of the pod's devices of the resource. */
  const ids = async (pod?: JsonObject, resource = vf): Promise<string[] | undefined> =>
    (await devices.devicesOf(lookup(pod))).get(resource)?.map(({ id }) => id);
  const metadataPath = join(
    kubeletDir,
    "plugins/nic.example/dra-device-metadata/default_mine/req/metadata.json",
  );
  const writeMetadata = async (text: string): Promise<void> => {
    await mkdir(dirname(metadataPath), { recursive: true });
    await writeFile(metadataPath, text);
  };
  return { api, devices, ids, logger, writeMetadata };
}

test("a pod without claims, or an unknown pod, has no devices and causes no API request [D-29]", async () => {
  const { api, devices } = await open();
  expect(await devices.devicesOf(lookup({ spec: {} }))).toEqual(new Map());
  const unknown = { ...lookup(), podObject: async () => undefined };
  expect(await devices.devicesOf(unknown)).toEqual(new Map());
  expect(api.asked).toEqual([]);
});

test("a claim named in the pod's spec is read even if the pod's status does not name it [D-23] [D-25] [D-26]", async () => {
  const { api, devices } = await open();
  api.claims = mine;
  const claims = [{ claim: "nic", request: "req" }];
  expect(await devices.devicesOf(lookup())).toEqual(
    new Map([[vf, [{ id: pci(1), source: "ResourceClaim mine", claims }]]]),
  );
  expect(api.asked).toEqual(["claim default/mine", "slices nic.example"]);
});

test("slices are listed for the pod's nodeName, not for the host's name [D-26]", async () => {
  const { api, ids } = await open();
  api.claims = mine;
  const spec = { ...(oneClaim.spec as JsonObject), nodeName: "node.example" };
  expect(await ids({ ...oneClaim, spec })).toEqual([pci(1)]);
  expect(api.nodeNames).toEqual(["node.example"]);
});

const templates = [
  { name: "nic", resourceClaimTemplateName: "template" },
  { name: "none", resourceClaimTemplateName: "template" },
];
const statuses = [
  { name: "nic", resourceClaimName: "web-nic-x" },
  { name: "none", resourceClaimName: null },
];

test("a claim from a template is found through the pod's status; a null claim is skipped [D-23]", async () => {
  const { api, ids } = await open();
  api.claims = [claimObject("web-nic-x", [{ device: "vf-2" }], { owner: "uid-web" })];
  expect(await ids(draPod({ spec: templates, statuses }))).toEqual([pci(2)]);
});

const extended = draPod({
  extended: {
    resourceClaimName: "mine",
    requestMappings: [
      { containerName: "main", resourceName: vf, requestName: "container-0-request-0" },
      { containerName: "main", resourceName: "vendor.example/gpu", requestName: "gpu" },
    ],
  },
});

test("an extended resource that a claim backs has the devices of the mapped request [D-24]", async () => {
  const { api, ids } = await open();
  const results = [
    { device: "vf-3", request: "container-0-request-0" },
    { device: "vf-1", request: "container-0-request-0" },
    { device: "gpu-0", request: "gpu", driver: "gpu.example" },
  ];
  api.claims = [claimObject("mine", results, { owner: "uid-web" })];
  const attributes = { "resource.kubernetes.io/pciBusID": { string: pci(1) } };
  const gpus = sliceObject({ driver: "gpu.example", devices: [{ name: "gpu-0" }] });
  api.slices = [
    sliceObject({
      devices: [
        { name: "vf-1", attributes },
        { name: "vf-3", attributes: networkAttributes(pci(3), "another.example/name") },
      ],
    }),
    gpus,
  ];
  expect(await ids(extended)).toEqual([pci(1), pci(3)]);
});

const noId = [sliceObject({ devices: [{ name: "vf-1" }] })];
const extendedClaim = [{ device: "vf-1", request: "container-0-request-0" }];
const tooMany = Array.from({ length: 65 }, (_, i) => ({
  name: `c${i}`,
  resourceClaimName: "mine",
}));

interface World {
  readonly pod?: JsonObject;
  readonly claims?: readonly JsonObject[];
  readonly slices?: readonly JsonObject[];
}

test.for<[what: string, code: number, message: RegExp, world?: World]>([
  [
    "does not exist",
    100,
    /its claim "nic" is the ResourceClaim default\/mine, which does not exist/,
  ],
  [
    "is not reserved for the pod",
    100,
    /ResourceClaim "default\/mine", a claim of the pod, is not reserved/,
    { claims: [claimObject("mine", [{ device: "vf-1" }], { reservedFor: "uid-other" })] },
  ],
  [
    "is not allocated",
    100,
    /is not allocated/,
    { claims: [claimObject("mine", [{ device: "vf-1" }], { isAllocated: false })] },
  ],
  [
    "was not created from its template yet",
    11,
    /the pod's claim "nic"/,
    { pod: draPod({ spec: templates }) },
  ],
  [
    "was created from a template for another pod",
    100,
    /not made for the pod/,
    {
      pod: draPod({ spec: templates, statuses }),
      claims: [claimObject("web-nic-x", [{ device: "vf-2" }], { owner: "uid-predecessor" })],
    },
  ],
  [
    "backs an extended resource and has a device without an ID",
    100,
    /device vf-1 of pool pool .*nic\.example publishes neither/,
    {
      pod: extended,
      claims: [claimObject("mine", extendedClaim, { owner: "uid-web" })],
      slices: noId,
    },
  ],
  [
    "has a device that the newest generation of its pool lacks",
    11,
    /device vf-1 of pool pool, which is in no ResourceSlice/,
    { claims: mine, slices: [slice, sliceObject({ devices: [], generation: 2 })] },
  ],
  [
    "has more slices than the limit",
    100,
    /nic.example has more than 2000 ResourceSlices/,
    { claims: mine, slices: Array(2001).fill(slice) },
  ],
  [
    "exceeds the limit of claims per pod",
    100,
    /has 65 resource claims/,
    { pod: draPod({ spec: tooMany }) },
  ],
])(
  "devicesOf() fails with the reason for a claim that %s [D-23] [D-25] [D-26] [S-306]",
  async ([, code, message, { pod = oneClaim, claims = [], slices = [slice] } = {}]) => {
    const { api, devices } = await open();
    Object.assign(api, { claims, slices });
    const problem = expect.stringMatching(message);
    await expect(devices.devicesOf(lookup(pod))).rejects.toMatchObject({ code, message: problem });
  },
);

test("a claim may belong to the pod's PodGroup, matched by name and kind [D-25]", async () => {
  const { api, ids } = await open();
  const claim = claimObject("web-nic-x", [{ device: "vf-2" }]);
  const group = { name: "gang", uid: "uid-gang" };
  const reservation = { apiGroup: "scheduling.k8s.io", resource: "podgroups", ...group };
  const owner = { apiVersion: "scheduling.k8s.io/v1alpha2", kind: "PodGroup", ...group };
  const withOwner = (each: JsonObject, reservedFor: JsonObject): JsonObject => ({
    ...claim,
    metadata: { ...(claim.metadata as JsonObject), ownerReferences: [each] },
    status: { ...(claim.status as JsonObject), reservedFor: [reservedFor] },
  });
  const pod = draPod({ spec: templates, statuses });
  const member = (podGroupName: string): JsonObject => ({
    ...pod,
    spec: { ...(pod.spec as JsonObject), schedulingGroup: { podGroupName } },
  });
  api.claims = [withOwner(owner, reservation)];
  expect(await ids(member("gang"))).toEqual([pci(2)]);
  await expect(ids(member("other"))).rejects.toMatchObject({ code: 100 });
  await expect(ids(pod)).rejects.toMatchObject({ code: 100 });
  for (const [each, reserved] of [
    [{ ...owner, kind: "Job" }, reservation],
    [{ ...owner, apiVersion: "evil.example/v1" }, reservation],
    [owner, { ...reservation, apiGroup: "evil.example" }],
  ] as const) {
    api.claims = [withOwner(each, reserved)];
    await expect(ids(member("gang"))).rejects.toMatchObject({ code: 100 });
  }
});

test("devices are unique, and ordered by the pod's claims, by request and by name [D-27]", async () => {
  const { api, devices } = await open();
  api.claims = [
    claimObject("mine", [{ device: "vf-2" }, { device: "vf-0", request: "req/alternative" }]),
    claimObject("second", [{ device: "vf-1" }, { device: "vf-2" }]),
  ];
  const spec = [
    { name: "b", resourceClaimName: "second" },
    { name: "a", resourceClaimName: "mine" },
  ];
  const found = (await devices.devicesOf(lookup(draPod({ spec })))).get(vf) ?? [];
  expect(found.map(({ id }) => id)).toEqual([pci(1), pci(2), pci(0)]);
  expect(found[1]?.claims).toEqual([
    { claim: "b", request: "req" },
    { claim: "a", request: "req" },
  ]);
});

test("devices with admin access or without a device ID are skipped [D-25] [D-26]", async () => {
  const { api, devices } = await open();
  api.claims = [
    claimObject("mine", [
      { device: "vf-0", adminAccess: true },
      { device: "plain" },
      { device: "bus" },
    ]),
  ];
  const bus = { "resource.kubernetes.io/pciBusID": { string: pci(7) } };
  api.slices = [sliceObject({ devices: [{ name: "plain" }, { name: "bus", attributes: bus }] })];
  const found = await devices.devicesOf(lookup());
  expect([...found].map(([resource, list]) => [resource, list.map(({ id }) => id)])).toEqual([
    ["", [pci(7)]],
  ]);
});

test("only the newest generation of a pool's slices counts, whatever their order [D-26]", async () => {
  const { api, ids } = await open();
  api.claims = mine;
  const named = (id: string) => ({
    devices: [{ name: "vf-1", attributes: networkAttributes(id) }],
  });
  const slices = [
    sliceObject({ ...named("old"), generation: 1 }),
    sliceObject({ ...named("new"), generation: 3 }),
    sliceObject({ ...named("older"), generation: 2 }),
    sliceObject({ ...named("of-another-pool"), generation: 9, pool: "other" }),
  ];
  api.slices = slices;
  expect(await ids()).toEqual(["new"]);
  api.slices = slices.toReversed();
  expect(await ids()).toEqual(["new"]);
});

function metadata(
  apiVersion: string,
  id: string,
  { uid = "uid-of-mine", device = "vf-1" } = {},
): JsonObject {
  const attributes = networkAttributes(id);
  const listed = { driver: "nic.example", pool: "pool", name: device, attributes };
  return {
    kind: "DeviceMetadata",
    apiVersion: `metadata.resource.k8s.io/${apiVersion}`,
    metadata: { namespace: "default", name: "mine", uid },
    requests: [{ name: "req/first", devices: [listed] }],
  };
}

test("the driver's metadata file is preferred, and avoids reading slices [D-30]", async () => {
  const { api, ids, writeMetadata } = await open();
  api.claims = mine;
  const versions = [metadata("v9", "unknown"), metadata("v1alpha1", "by-file")];
  await writeMetadata(`${versions.map((each) => JSON.stringify(each)).join("\n")}\n`);
  expect(await ids()).toEqual(["by-file"]);
  expect(api.asked).toEqual(["claim default/mine"]);
  await writeMetadata(versions.map((each) => JSON.stringify(each, undefined, 2)).join("\n"));
  expect(await ids()).toEqual(["by-file"]);
});

test.each([
  ["belongs to an earlier claim", JSON.stringify(metadata("v1alpha1", "x", { uid: "?" })), 0],
  ["lists another device", JSON.stringify(metadata("v1alpha1", "x", { device: "vf-2" })), 0],
  ["has only an unknown version", JSON.stringify(metadata("v9", "x")), 0],
  ["is truncated", '{"kind":"DeviceMeta', 1],
  ["is too long", " ".repeat(16 * 1024 * 1024 + 1), 1],
])("slices are read if a metadata file %s [D-30]", async (_, text, warnings) => {
  const { api, ids, logger, writeMetadata } = await open();
  api.claims = mine;
  await writeMetadata(text);
  expect(await ids()).toEqual([pci(1)]);
  expect(logger.at("warn")).toHaveLength(warnings);
});

test("a driver name that leads out of the drivers' directory is not used as a path [D-30]", async () => {
  const { api, ids } = await open();
  api.claims = [claimObject("mine", [{ device: "vf-1", driver: "../escape" }])];
  api.slices = [
    sliceObject({
      driver: "../escape",
      devices: [{ name: "vf-1", attributes: networkAttributes("by-slice") }],
    }),
  ];
  expect(await ids()).toEqual(["by-slice"]);
});

test("an absent or forbidden API group is logged once, and pods get no claimed devices [D-29]", async () => {
  const { api, devices, logger } = await open();
  api.failure = new ResourceApiUnavailableError("forbidden");
  expect(await devices.devicesOf(lookup())).toEqual(new Map());
  expect(await devices.devicesOf(lookup())).toEqual(new Map());
  expect(logger.at("warn")).toHaveLength(1);
  api.failure = undefined;
  api.claims = mine;
  expect((await devices.devicesOf(lookup())).size).toBe(1);
});

test("devicesOf() fails with code 11 if the API hangs or its call is cancelled", async () => {
  const { api, devices } = await open({ timeoutMs: 50 });
  api.hangs = true;
  await expect(devices.devicesOf(lookup())).rejects.toMatchObject({
    code: 11,
    message: expect.stringContaining("the claims of pod default/web"),
  });
  const gone = new AbortController();
  gone.abort(new Error("the shim has gone"));
  const ended = devices.devicesOf({ ...lookup(), signal: gone.signal });
  await expect(ended).rejects.toMatchObject({ code: 11 });
});
