import { expect, test } from "vitest";
import type { Pod } from "#engine/ports/cluster.ts";
import { EngineLab, network } from "#engine/testing/engine-lab.ts";
import type { JsonObject } from "#lib/json.ts";
import { mirrorAnnotation, podAnnotationsCapability } from "#npwg/object-meta.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

const pod = "default/web/uid-9";

/** What the runtime adds to its conf. */
function annotated(annotations: unknown): { conf: JsonObject } {
  return { conf: { runtimeConfig: { [podAnnotationsCapability]: annotations } } as JsonObject };
}

/** With a definition `a`, and no pods: a look-up finds none. */
function labWithoutPods(): EngineLab {
  const lab = new EngineLab();
  lab.source.addNad("default/a", network("net-a", "bridge"));
  return lab;
}

test("add() does not look up a pod whose annotations the runtime sends, and publishes with its UID", async () => {
  const lab = labWithoutPods();
  const call = annotated({
    [networksAnnotation]: "a",
    "kubernetes.io/config.seen": "2026-01-01T00:00:00Z",
    "kubernetes.io/config.source": "api",
  });
  expect(await lab.add({ pod, ...call })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0", "bridge ADD net1"]);
  expect(lab.source.asked).toEqual(["nad default/a"]);
  expect(lab.records.writes.at(-1)?.record.pod).toEqual({
    namespace: "default",
    name: "web",
    uid: "uid-9",
  });
  expect([...lab.publisher.published.keys()]).toEqual(["default/web"]);
});

test("add() of a pod that has no annotations, as Go writes it, looks up nothing", async () => {
  const lab = labWithoutPods();
  expect(await lab.add({ pod, ...annotated(null) })).toMatchObject({ exitCode: 0 });
  expect(lab.source.asked).toEqual([]);
});

test("add() without a source of pods attaches only a pod that requests no networks", async () => {
  const lab = new EngineLab({ noSource: true });
  const { json } = await lab.add({ pod, ...annotated({ [networksAnnotation]: "a" }) });
  expect(json).toMatchObject({ code: 11, msg: expect.stringContaining("default/web") });
  expect(await lab.add({ pod, ...annotated({}) })).toMatchObject({ exitCode: 0 });
});

test("add() without a source of pods attaches a static pod, as one without an API server", async () => {
  const lab = new EngineLab({ noSource: true });
  const call = annotated({ "kubernetes.io/config.source": "file" });
  expect(await lab.add({ pod, ...call })).toMatchObject({ exitCode: 0 });
});

test("add() looks up a pod without its UID", async () => {
  const lab = labWithoutPods();
  lab.source.addPod({ name: "web", uid: "of-the-api" });
  const call = annotated({ [networksAnnotation]: "a", "kubernetes.io/config.source": "api" });
  await lab.add({ pod: "default/web", ...call });
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0"]);
  expect(lab.records.writes[0]?.record.pod?.uid).toBe("of-the-api");
});

/** A static pod as the runtime describes it. */
const ofFile = annotated({
  [networksAnnotation]: "a",
  "kubernetes.io/config.source": "file",
  "kubernetes.io/config.hash": "uid-9",
});

/** Its mirror, or that of an earlier version of its file. */
function mirrorOf(runtimeUid: string): Pod {
  const annotations = { [mirrorAnnotation]: runtimeUid, [networksAnnotation]: "a" };
  return { namespace: "default", name: "web", uid: "mirror", annotations };
}

test.each([
  ["whose mirror is known", mirrorOf("uid-9"), "mirror"],
  ["whose known mirror is of an earlier version of its file", mirrorOf("uid-8"), "uid-9"],
  ["that has no mirror yet", undefined, "uid-9"],
])("add() attaches a static pod %s, without a request", async (_name, mirror, uid) => {
  const lab = labWithoutPods();
  if (mirror !== undefined) lab.source.addPod(mirror);
  expect(await lab.add({ pod, ...ofFile })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0", "bridge ADD net1"]);
  expect(lab.source.asked).toEqual(["nad default/a"]);
  expect(lab.records.writes[0]?.record.pod?.uid).toBe(uid);
});

test.each([
  ["not a map", "x", `runtimeConfig.${podAnnotationsCapability}: must be an object`],
  ["not strings", { a: 1 }, `["a"]: must be a string`],
])("add() refuses annotations that are %s, and attaches nothing", async (_name, value, message) => {
  const lab = labWithoutPods();
  const { json } = await lab.add({ pod, ...annotated(value) });
  expect(json).toMatchObject({ code: 7, msg: expect.stringContaining(message) });
  expect(lab.journal).toEqual([]);
});

test("add() passes the annotations to plugins that declare the capability, and records them only there", async () => {
  const annotations = { "example.com/long": "x".repeat(1000) };
  const lab = labWithoutPods();
  await lab.add({ pod, ...annotated(annotations) });
  expect(JSON.stringify(lab.records.writes)).not.toContain("example.com/long");
  const plugin = { type: "ptp", capabilities: { [podAnnotationsCapability]: true } };
  const capable = new EngineLab({
    conf: { delegates: [{ cniVersion: "1.0.0", name: "default-net", plugins: [plugin] }] },
  });
  await capable.add({ pod, ...annotated(annotations) });
  const [call] = capable.plugins.calls;
  expect(JSON.parse(call?.stdin ?? "").runtimeConfig).toEqual({
    [podAnnotationsCapability]: annotations,
  });
});
