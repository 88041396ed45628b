import { expect, test } from "vitest";
import type { DeviceLookup } from "#engine/ports/devices.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import type { JsonObject } from "#lib/json.ts";
import { KubeletDevices } from "./kubelet-devices.ts";
import { FakeKubelet, listedPod } from "./testing/fake-kubelet.ts";

const vf = "vendor.example/vf";

/** A pod's object with these containers. Names with `sidecar` are restartable init containers'. */
function podObject(...names: string[]): JsonObject {
  const isSidecar = (name: string): boolean => name.startsWith("sidecar");
  const sidecars = names.filter(isSidecar).map((name) => ({ name, restartPolicy: "Always" }));
  const containers = names.filter((name) => !isSidecar(name)).map((name) => ({ name }));
  return { spec: { initContainers: [{ name: "init" }, ...sidecars], containers } };
}

function lookup(
  name: string,
  object: JsonObject | Error | undefined = podObject("main"),
): DeviceLookup {
  return {
    pod: { namespace: "default", name, uid: `uid-${name}`, annotations: {} },
    networks: [{ displayName: "default/net", resourceName: vf }],
    podObject: async () => {
      if (object instanceof Error) throw object;
      return object;
    },
    signal: new AbortController().signal,
  };
}

async function open(options: { timeoutMs?: number } = {}) {
  const kubelet = await FakeKubelet.create();
  const logger = new FakeLogger();
  const devices = new KubeletDevices({ kubeletDir: kubelet.dir, logger, ...options });
  /** The IDs of the pod's devices of the resource. */
  const ids = async (asked: DeviceLookup, resource = vf): Promise<string[] | undefined> =>
    (await devices.devicesOf(asked)).get(resource)?.map(({ id }) => id);
  return { kubelet, devices, ids, logger };
}

test("devicesOf() asks for one pod and names the source; an unknown pod has no devices [D-2] [D-7] [D-8] [D-9] [D-10]", async () => {
  const { kubelet, devices } = await open();
  kubelet.pods = [listedPod("web", { main: { [vf]: ["0000:03:02.1"] } })];
  await kubelet.start();
  const source = "the kubelet's pod-resources API";
  expect(await devices.devicesOf(lookup("web"))).toEqual(
    new Map([[vf, [{ id: "0000:03:02.1", source }]]]),
  );
  expect(await devices.devicesOf(lookup("unknown"))).toEqual(new Map());
  expect(kubelet.calls).toEqual(["Get", "Get"]);
});

test.for([
  [
    "container by container, sorted bytewise within one",
    { main: ["b10", "b9", "B", "a"], second: ["0"] },
    ["B", "a", "b10", "b9", "0"],
  ],
  [
    "by their bytes, not by their UTF-16",
    { main: ["\u{10000}", "\uff61"] },
    ["\uff61", "\u{10000}"],
  ],
  ["once for several NUMA nodes", { main: ["x", "y", "x", "x"] }, ["x", "y"]],
  ["of sidecars, in the kubelet's order", { "sidecar-a": ["z"], main: ["a"] }, ["z", "a"]],
] as const)("devicesOf() gives IDs %s [D-11]", async ([, containers, expected]) => {
  const { kubelet, ids } = await open();
  await kubelet.start();
  const listed = Object.entries(containers).map(([name, own]) => [name, { [vf]: own, r: ["q"] }]);
  for (let i = 0; i < 10; i++) {
    kubelet.pods = [listedPod("web", Object.fromEntries(listed))];
    const asked = lookup("web", podObject(...Object.keys(containers)));
    expect(await ids(asked)).toEqual(expected);
    expect(await ids(asked, "r")).toEqual(["q"]);
  }
});

test("devicesOf() lists all pods if the kubelet has Get disabled, and remembers that [D-9] [D-13]", async () => {
  const { kubelet, ids } = await open();
  kubelet.getIsDisabled = true;
  const pods = Array.from({ length: 500 }, (_, i) =>
    listedPod(`p${i}`, { main: { [vf]: [`d${i}`] } }),
  );
  kubelet.pods = pods;
  await kubelet.start();
  expect(await ids(lookup("p499"))).toEqual(["d499"]);
  expect(await ids(lookup("p7"))).toEqual(["d7"]);
  expect(kubelet.calls).toEqual(["Get", "List", "List"]);
});

test("devicesOf() tries Get again after the kubelet recreated its socket [D-13]", async () => {
  const { kubelet, ids } = await open();
  kubelet.getIsDisabled = true;
  kubelet.pods = [listedPod("web", { main: { [vf]: ["a"] } })];
  await kubelet.start();
  await ids(lookup("web"));
  kubelet.stop();
  kubelet.getIsDisabled = false;
  await kubelet.start();
  expect(await ids(lookup("web"))).toEqual(["a"]);
  expect(kubelet.calls).toEqual(["Get", "List", "Get"]);
});

test("devicesOf() for many pods at once lists at most twice [D-12]", async () => {
  const { kubelet, ids } = await open();
  kubelet.getIsDisabled = true;
  const names = Array.from({ length: 40 }, (_, i) => `p${i}`);
  kubelet.pods = names.map((name) => listedPod(name, { main: { [vf]: [name] } }));
  await kubelet.start();
  await ids(lookup("p0"));
  const found = await Promise.all(names.map((name) => ids(lookup(name))));
  expect(found).toEqual(names.map((name) => [name]));
  expect(kubelet.calls.filter((call) => call === "List").length).toBeLessThanOrEqual(3);
});

test("devicesOf() retries when the kubelet's rate limit rejects it [D-12]", async () => {
  const { kubelet, ids } = await open();
  kubelet.rateLimited = 2;
  kubelet.pods = [listedPod("web", { main: { [vf]: ["a"] } })];
  await kubelet.start();
  expect(await ids(lookup("web"))).toEqual(["a"]);
  expect(kubelet.calls).toEqual(["Get", "Get", "Get"]);
});

test("devicesOf() gives up with code 11 when the kubelet hangs, after a second attempt [D-12]", async () => {
  const { kubelet, devices } = await open({ timeoutMs: 500 });
  kubelet.pods = [listedPod("web", { main: { [vf]: ["a"] } })];
  await kubelet.start();
  // The first call of a process loads the library, which on a busy machine takes the time of an attempt.
  await devices.devicesOf(lookup("web"));
  const answered = kubelet.calls.length;
  kubelet.hangs = true;
  await expect(devices.devicesOf(lookup("web"))).rejects.toMatchObject({
    code: 11,
    message: expect.stringMatching(/pod default\/web.*kubelet\.sock.*DEADLINE_EXCEEDED/),
  });
  expect(kubelet.calls.length - answered).toBeGreaterThan(1);
});

test("devicesOf() waits for a kubelet that restarts in time, and otherwise fails with code 11 [D-12]", async () => {
  const { kubelet, ids } = await open({ timeoutMs: 3000 });
  kubelet.pods = [listedPod("web", { main: { [vf]: ["a"] } })];
  await kubelet.start();
  await kubelet.kill();
  const asked = ids(lookup("web"));
  await new Promise((resolve) => setTimeout(resolve, 100));
  await kubelet.start();
  expect(await asked).toEqual(["a"]);
  const { kubelet: other, devices } = await open({ timeoutMs: 200 });
  await other.start();
  await other.kill();
  await expect(devices.devicesOf(lookup("web"))).rejects.toMatchObject({ code: 11 });
});

test("devicesOf() fails with code 11 when its call is cancelled", async () => {
  const { kubelet, devices } = await open();
  kubelet.hangs = true;
  await kubelet.start();
  const gone = new AbortController();
  const asked = devices.devicesOf({ ...lookup("web"), signal: gone.signal });
  setTimeout(() => gone.abort(), 50);
  await expect(asked).rejects.toMatchObject({ code: 11 });
});

test("devicesOf() never returns devices of an earlier pod with the same name [D-10]", async () => {
  const { kubelet, devices, ids } = await open();
  kubelet.predecessor = listedPod("web", { old: { [vf]: ["taken"] } });
  kubelet.pods = [kubelet.predecessor, listedPod("web", { main: { [vf]: ["a"] } })];
  await kubelet.start();
  expect(await ids(lookup("web"))).toEqual(["a"]);
  kubelet.pods = [kubelet.predecessor];
  await expect(devices.devicesOf(lookup("web"))).rejects.toMatchObject({
    code: 11,
    message: expect.stringContaining("a predecessor of the same name"),
  });
});

test("devicesOf() trusts the kubelet's answer if the pod's spec is unavailable", async () => {
  const { kubelet, ids, logger } = await open();
  kubelet.pods = [listedPod("web", { whatever: { [vf]: ["a"] } })];
  await kubelet.start();
  expect(await ids({ ...lookup("web"), podObject: async () => undefined })).toEqual(["a"]);
  expect(logger.at("warn")).toHaveLength(0);
  expect(await ids(lookup("web", new Error("API server away")))).toEqual(["a"]);
  expect(logger.at("warn")).toHaveLength(1);
});

const checkpoint = {
  Data: {
    PodDeviceEntries: [
      entry("uid-web", "second", { "0": ["a"], "1": ["a", "B"] }),
      entry("uid-web", "main", { "-1": ["z", "y"] }),
      entry("uid-web", "init", { "-1": ["of-init"] }),
      entry("uid-other", "main", { "-1": ["x"] }),
    ],
    RegisteredDevices: { [vf]: ["a"] },
  },
  Checksum: 1,
};

function entry(PodUID: string, ContainerName: string, DeviceIDs: JsonObject): JsonObject {
  return { PodUID, ContainerName, ResourceName: vf, DeviceIDs, AllocResp: "" };
}

test("devicesOf() without a socket reads the checkpoint, by UID and in the containers' order [D-13] [D-14]", async () => {
  const { kubelet, devices, ids } = await open();
  // The checksum exceeds the precision of JavaScript's numbers.
  const text = JSON.stringify(checkpoint).replace(
    '"Checksum":1',
    '"Checksum":18446744073709551557',
  );
  await kubelet.writeCheckpoint(text);
  expect(await ids(lookup("web", podObject("main", "second")))).toEqual(["y", "z", "B", "a"]);
  const found = await devices.devicesOf(lookup("web", new Error("API server away")));
  expect(found.get(vf)?.map(({ id }) => id)).toEqual(["of-init", "y", "z", "B", "a"]);
  expect(found.get(vf)?.[0]?.source).toBe("the kubelet's device checkpoint");
});

test("devicesOf() finds the devices of a static pod under the UID that its mirror names [D-14]", async () => {
  const { kubelet, ids } = await open();
  await kubelet.writeCheckpoint(checkpoint);
  const asked = lookup("mirror", podObject("main"));
  const annotations = { "kubernetes.io/config.mirror": "uid-other" };
  expect(await ids({ ...asked, pod: { ...asked.pod, annotations } })).toEqual(["x"]);
});

test("devicesOf() asks once for a list that exceeds the limit, then reads the checkpoint", async () => {
  const { kubelet, devices, ids } = await open();
  kubelet.getIsDisabled = true;
  kubelet.pods = [listedPod("web", { main: { [vf]: ["x".repeat(17 * 1024 * 1024)] } })];
  await kubelet.start();
  await expect(devices.devicesOf(lookup("web"))).rejects.toMatchObject({
    code: 11,
    message: expect.stringMatching(/message larger than max .*, and no checkpoint/),
  });
  await kubelet.writeCheckpoint(checkpoint);
  expect(await ids(lookup("web"))).toEqual(["y", "z"]);
  expect(kubelet.calls).toEqual(["Get", "List", "List"]);
});

test.each([
  ["is missing", undefined, "no checkpoint: ENOENT"],
  ["is truncated", '{"Data":{"Pod', "JSON"],
  ["is malformed", { Data: { PodDeviceEntries: [{}] } }, "PodUID: is missing"],
])("devicesOf() without a socket is code 11 if the file %s [D-13]", async (_, content, problem) => {
  const { kubelet, devices } = await open();
  if (content !== undefined) await kubelet.writeCheckpoint(content);
  await expect(devices.devicesOf(lookup("web"))).rejects.toMatchObject({
    code: 11,
    message: expect.stringContaining(problem),
  });
});
