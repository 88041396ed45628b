import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { FakeMultusFiles } from "#engine/testing/fake-files.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import { multusLeftovers } from "./multus-leftovers.ts";

/* By the files that Multus 4.3.0 wrote for a pod `default/web`. */

const recorded = new URL("../../../e2e/fixtures/multus/", import.meta.url);
const read = (name: string): string => readFileSync(new URL(name, recorded), "utf8");
const containerId = "a".repeat(64);
const web = { namespace: "default", name: "web", uid: "u1", annotations: {} };

const cachedMain = read("results/main-eth0");
const ofPlugin = (type: string): string => {
  const conf = { cniVersion: "1.0.0", name: "x", type };
  return JSON.stringify([{ Bytes: Buffer.from(JSON.stringify(conf)).toString("base64") }]);
};
const withoutUid = cachedMain.replaceAll('"K8S_POD_UID"', '"OTHER"');

test.each([
  { when: "its pod runs", pods: [web], left: [] },
  { when: "its pod is gone", pods: [], left: [containerId] },
  { when: "another pod has the name", pods: [{ ...web, uid: "u2" }], left: [containerId] },
  {
    when: "its pod is static",
    pods: [{ ...web, uid: "mirror", annotations: { [mirrorAnnotation]: "u1" } }],
    left: [],
  },
  {
    when: "its static pod was replaced",
    pods: [{ ...web, uid: "mirror", annotations: { [mirrorAnnotation]: "u2" } }],
    left: [containerId],
  },
  { when: "its UID is not cached, and its pod runs", pods: [web], cached: [withoutUid], left: [] },
  { when: "its UID is not cached", pods: [], cached: [withoutUid], left: [containerId] },
  { when: "nothing is cached of it", pods: [], cached: [], left: [] },
  { when: "its cached result is damaged", pods: [], cached: ["{"], left: [] },
])("multusLeftovers() names a container that Multus attached: $when", async (scene) => {
  const { pods, left, cached = [cachedMain] } = scene;
  const files = new FakeMultusFiles();
  files.sandboxes.set(containerId, read("networks"));
  for (const text of cached) files.cached.set(`main-${containerId}-eth0`, text);
  expect(await multusLeftovers(files, () => pods)).toEqual({ gone: left, damaged: [] });
});

test.each([
  { when: "is empty", networks: "", why: "unexpected end" },
  { when: "has no networks", networks: "[]", why: "must be an array" },
  { when: "is truncated", networks: read("networks").slice(0, 500), why: "not valid JSON" },
  { when: "has a meta-plugin", networks: ofPlugin("multus"), why: "meta-plugin" },
])(
  "multusLeftovers() names a file of Multus that $when, also of a pod that runs",
  async (scene) => {
    const files = new FakeMultusFiles();
    files.sandboxes.set(containerId, scene.networks);
    files.cached.set(`main-${containerId}-eth0`, cachedMain);
    const { gone, damaged } = await multusLeftovers(files, () => [web]);
    expect(gone).toEqual([]);
    expect(damaged).toEqual([expect.stringContaining(scene.why)]);
    expect(damaged[0]).toContain(`/var/lib/cni/multus/${containerId}`);
  },
);

test("multusLeftovers() names a directory with the name of Multus's file", async () => {
  const files = new FakeMultusFiles();
  files.sandboxes.set(containerId, "");
  files.networks = async () => {
    throw new CniError("DecodingFailure", "it is not a regular file");
  };
  const { damaged } = await multusLeftovers(files, () => []);
  expect(damaged).toEqual(["it is not a regular file"]);
});

test.each([undefined, "{"])("multusLeftovers() finds the pod if one result is %s", async (text) => {
  const files = new FakeMultusFiles();
  files.sandboxes.set(containerId, read("networks"));
  if (text !== undefined) files.cached.set(`main-${containerId}-eth0`, text);
  files.cached.set(`single-${containerId}-net2`, read("results/single-net2"));
  expect(await multusLeftovers(files, () => [])).toMatchObject({ gone: [containerId] });
});

test("multusLeftovers() lists the pods after the files, so that a new pod is none that is gone", async () => {
  const files = new FakeMultusFiles();
  files.sandboxes.set(containerId, read("networks"));
  files.cached.set(`main-${containerId}-eth0`, cachedMain);
  const pods: (typeof web)[] = [];
  const readNetworks = files.networks.bind(files);
  files.networks = async (id) => {
    pods.push(web);
    return readNetworks(id);
  };
  expect(await multusLeftovers(files, () => pods.slice())).toMatchObject({ gone: [] });
});
