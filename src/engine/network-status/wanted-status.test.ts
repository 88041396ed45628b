import { expect, test } from "vitest";
import { defaultEngineConfig, type EngineConfig } from "#engine/config.ts";
import { hotPlugLab } from "#engine/hotplug/testing/hot-plug-lab.ts";
import { type EngineLab, network, sandbox } from "#engine/testing/engine-lab.ts";
import { podLab, web } from "#engine/testing/pod-lab.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import {
  defaultNetworkAnnotation,
  networkStatusAnnotation,
  networksAnnotation,
} from "#npwg/selection/selection.ts";
import { wantsStatus } from "./wanted-status.ts";

const requested = { statusOf: "requested" } as const satisfies Partial<EngineConfig>;

const shown = ({ publisher }: EngineLab): string[] =>
  publisher.status("default/web").map(({ name }) => String(name));

/** What is published and recorded as an event. */
const told = (lab: EngineLab): unknown[] => [shown(lab), lab.events.reasons];

test.each(["afterReply", "beforeReply"] as const)(
  "with statusOf: requested, a pod with the default network only gets no status and no event (%s)",
  async (publishStatus) => {
    const lab = podLab("", undefined, { config: { ...requested, publishStatus } });
    expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
    expect(told(lab)).toEqual([[], []]);
    expect((await lab.records.load(sandbox))?.record.pendingStatus).toBeUndefined();
  },
);

const further = [network("default-net", "ptp"), network("further", "bridge")];

test.each([
  { of: "a network", annotations: { [networksAnnotation]: "a" }, names: ["default-net"] },
  { of: "a default network", annotations: { [defaultNetworkAnnotation]: "default/a" }, names: [] },
  { of: "nothing, with further delegates", conf: { delegates: further }, names: ["default-net"] },
  { of: "what is no network", annotations: { [networksAnnotation]: "a@@" }, names: [] },
])("with statusOf: requested, a pod that asks for $of gets both", async (scene) => {
  const { annotations = {}, conf } = scene;
  const lab = podLab("", undefined, { config: requested, ...(conf && { conf }) });
  lab.source.addPod({ name: "web", annotations });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(shown(lab)).toEqual(expect.arrayContaining(scene.names));
  expect(shown(lab)).not.toEqual([]);
  expect(lab.events.recorded).not.toEqual([]);
});

test("with statusOf: requested, the auxiliary chain of every pod is no reason for a status", () => {
  const config = { ...defaultEngineConfig, ...requested };
  const chain = { isDefault: false, displayName: "chain" };
  expect(wantsStatus({ config }, undefined, [chain])).toBe(true);
  const named = { ...config, auxiliaryCNIChainName: "chain" };
  expect(wantsStatus({ config: named }, undefined, [chain])).toBe(false);
});

test("with statusOf: requested, the status of an earlier sandbox does not stay", async () => {
  const lab = podLab("", undefined, { config: requested });
  lab.source.addPod({ name: "web", annotations: { [networkStatusAnnotation]: "" } });
  await lab.add(web);
  expect(told(lab)).toEqual([["default-net"], ["AddedInterface"]]);
});

test("with statusOf: requested, the status follows networks that are plugged and unplugged", async () => {
  const { lab, edit } = await hotPlugLab("a", {}, { config: requested });
  await edit("");
  expect(shown(lab)).toEqual(["default-net"]);
  await edit("b");
  expect(shown(lab)).toEqual(["default-net", "default/b"]);
});

test("with statusOf: requested, addresses that change are shown by a pod that has shown a status", async () => {
  const config = { ...requested, inspect: ["addresses"] } as const;
  const { lab, hosts, pod, edit } = await hotPlugLab("a", {}, { config });
  await edit("");
  lab.kernel.addAddresses("/run/netns/c1", "eth0", ["fd00::7/64"]);
  await lab.engine.inspect({ ...pod(), annotations: {} }, { hosts, conf: async () => lab.conf });
  await new Promise(setImmediate);
  expect(lab.publisher.status("default/web")).toMatchObject([
    { name: "default-net", ips: expect.arrayContaining(["fd00::7"]) },
  ]);
});

test("the mirror of a static pod that is made anew gets the status of its sandbox", async () => {
  const lab = podLab("");
  const mirror = { name: "web", namespace: "default", isStatic: true };
  const annotations = { [mirrorAnnotation]: "static" };
  lab.source.addPod({ ...mirror, uid: "mirror-1", annotations });
  await lab.add({ pod: "default/web/static" });
  lab.publisher.published.clear();
  await lab.publisher.compare({ ...mirror, uid: "mirror-2", annotations: {} });
  expect(shown(lab)).toEqual([]);
  await lab.publisher.compare({ ...mirror, uid: "mirror-2", annotations });
  expect(shown(lab)).toEqual(["default-net"]);
});
