import { expect, test } from "vitest";
import { network } from "#engine/testing/engine-lab.ts";
import { FakeDevices } from "#engine/testing/fake-devices.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { hotPlugLab } from "./testing/hot-plug-lab.ts";

const resource = "vendor.example/rail";
const annotations = {
  "k8s.v1.cni.cncf.io/resourceName": resource,
  "plexus.dev/each-device": "true",
};
const ids = ["0000:03:02.1", "0000:03:02.2", "0000:03:02.3"];
const rails = ids.map((id, i) => `net${i + 2} default/rails ${id}`);

/** The pod with network `a` and, after an edit, with an interface for each of three devices. */
async function podWithRails() {
  const deviceSources = [new FakeDevices().allocate(resource, ...ids.toReversed())];
  const pod = await hotPlugLab("a", {}, { deviceSources });
  pod.lab.source.addNad("default/rails", network("net-r", "sriov"), annotations);
  const has = async () =>
    (await pod.attachments())
      .slice(1)
      .map(({ ifName, displayName, device }) =>
        [ifName, displayName, device?.id ?? []].flat().join(" "),
      );
  return { ...pod, pod, has };
}

test("hotPlug() attaches and detaches all attachments of an element, and keeps them beside others", async () => {
  const { pod, has } = await podWithRails();
  expect(await pod.edit("a,rails")).toMatchObject({ state: "settled" });
  expect(await has()).toEqual(["net1 default/a", ...rails]);
  for (const unchanged of ["rails,a", "a,rails"])
    expect(await pod.edit(unchanged)).toEqual({ state: "settled", operations: [] });
  await pod.edit("b,rails");
  expect(await has()).toEqual([...rails, "net1 default/b"]);
  expect(await pod.edit("b")).toMatchObject({ state: "settled" });
  expect(await has()).toEqual(["net1 default/b"]);
  expect(pod.lab.plugins.log("DEL").slice(-3)).toEqual([
    "sriov DEL net4",
    "sriov DEL net3",
    "sriov DEL net2",
  ]);
});

test("hotPlug() attaches what an element lacks, and leaves its other attachments", async () => {
  const { pod, has } = await podWithRails();
  pod.lab.plugins.script("sriov ADD", ({ ifName }) =>
    ifName === "net3" ? failed(5, "busy") : undefined,
  );
  expect(await pod.edit("a,rails")).toMatchObject({ state: "failed" });
  expect(await has()).toEqual(["net1 default/a", rails[0], rails[2]]);
  pod.lab.plugins.script("sriov ADD", () => undefined);
  pod.lab.journal.length = 0;
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(pod.lab.plugins.log("DEL").filter((line) => !line.endsWith("net3"))).toEqual([]);
  expect((await has()).toSorted()).toEqual(["net1 default/a", ...rails]);
  expect((await pod.attachments()).map(({ deviceCount }) => deviceCount)).toEqual([
    ...[undefined, undefined, 3, 3, 3],
  ]);
  expect(await pod.again()).toEqual({ state: "settled", operations: [] });
});

test("hotPlug() refreshes one of an element's attachments with its device", async () => {
  const { pod, has } = await podWithRails();
  await pod.edit("a,rails");
  expect(await pod.again("net3")).toMatchObject({
    operations: [{ op: "remove" }, { op: "add" }],
  });
  expect((await has()).toSorted()).toEqual(["net1 default/a", ...rails]);
});

test("hotPlug() detaches the rest of an element whose attachment could not be detached", async () => {
  const { pod, has } = await podWithRails();
  await pod.edit("a,rails");
  pod.lab.plugins.script("sriov DEL", ({ ifName }) =>
    ifName === "net2" ? failed(5, "busy") : undefined,
  );
  await pod.edit("a");
  expect(await has()).toEqual(["net1 default/a", rails[0]]);
  pod.lab.plugins.script("sriov DEL", () => undefined);
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(await has()).toEqual(["net1 default/a"]);
});

test("hotPlug() attaches again an element that could not be detached", async () => {
  const { pod, has } = await podWithRails();
  await pod.edit("a,rails");
  pod.lab.plugins.script("sriov DEL", failed(5, "busy"));
  await pod.edit("a");
  pod.lab.plugins.script("sriov DEL", () => undefined);
  expect(await pod.edit("a,rails")).toMatchObject({ state: "settled" });
  const again = ids.map((id, i) => `net${i + 2} default/rails ${id}`);
  expect(await has()).toEqual(["net1 default/a", ...again]);
});

test("hotPlug() records each attachment of an edit with its own element", async () => {
  const { pod } = await podWithRails();
  await pod.edit("a,rails,b");
  expect((await pod.attachments()).map(({ selection }) => selection?.name)).toEqual([
    ...[undefined, "a", "rails", "rails", "rails", "b"],
  ]);
  expect(await pod.again()).toEqual({ state: "settled", operations: [] });
});

test("hotPlug() refuses an element for which no device is left, and changes nothing", async () => {
  const { pod, has } = await podWithRails();
  await pod.edit("a,rails");
  const { problems } = await pod.edit("rails,rails");
  expect(problems?.[0]?.error.message).toContain("the 3 of the pod are those of other networks");
  expect(await has()).toEqual(["net1 default/a", ...rails]);
});
