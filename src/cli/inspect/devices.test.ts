import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { linesOf, startPlexusd } from "#cli/testing/run.ts";
import type { DevicesByResource } from "#daemon/admin/claimed-devices.ts";
import { FakeKubelet, listedPod } from "#devices/testing/fake-kubelet.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { FileRecordStore } from "#records/file-store.ts";

const vf = "vendor.example/vf";
const kubeletApi = "the kubelet's pod-resources API";
const claim = "ResourceClaim web-nic-x";

/** The record of the pod `default/web`, with a network for each device: net1, net2 and so on. */
function recordWith(
  devices: readonly NonNullable<RecordedAttachment["device"]>[],
): AttachmentRecord {
  return {
    ...{ containerId: "c-web", ifName: "eth0", netns: "/run/netns/web", cniVersion: "1.0.0" },
    pod: { namespace: "default", name: "web", uid: "uid-web" },
    createdAt: "2026-01-01T00:00:00Z",
    clockMs: 0,
    bootId: "b1",
    attachments: devices.map((device, index) => ({
      ...{ displayName: "default/sriov", isDefault: false, ifName: `net${index + 1}` },
      ...{ state: "attached", conf: {}, cniArgs: [], capabilityArgs: {}, searchPath: [] },
      device,
    })),
  };
}

/** A node whose kubelet has the pod `default/web`, and whose plexusd knows these devices of claims. */
async function nodeWith(
  claimed: DevicesByResource,
  recorded: readonly NonNullable<RecordedAttachment["device"]>[],
) {
  const kubelet = await FakeKubelet.create();
  kubelet.pods = [listedPod("web", { main: { [vf]: ["v1", "v2"] } })];
  await kubelet.start();
  const stateDir = join(kubelet.dir, "state");
  await mkdir(stateDir);
  const store = await FileRecordStore.open(stateDir);
  await store.create(recordWith(recorded), { bootId: "b1", attempted: 0, steps: [] });
  const asked: string[] = [];
  const { socket, server: plexusd } = await startPlexusd({
    claimedDevices: async ({ namespace, name }) => {
      asked.push(`${namespace}/${name}`);
      return claimed;
    },
  });
  const devices = async (pod: string) => {
    const dirs = ["--state-dir", stateDir, "--kubelet-dir", kubelet.dir, "--socket", socket];
    const { code, out, err } = await linesOf(["devices", pod, ...dirs]);
    return { code, rows: out.map((line) => line.split(/ {2,}/)), err };
  };
  return { kubelet, plexusd, asked, devices };
}

test("devices prints the kubelet's allocations, and the network that uses each", async () => {
  const device = { id: "v1", resourceName: vf, source: kubeletApi };
  const { kubelet, devices } = await nodeWith({}, [device]);
  expect(await devices("web")).toEqual({
    code: 0,
    rows: [
      ["DEVICE", "RESOURCE", "NETWORK", "SOURCE"],
      ["v1", vf, "default/sriov (net1)", kubeletApi],
      ["v2", vf, "-", kubeletApi],
    ],
    err: [],
  });
  expect((await devices("other/pod")).rows).toEqual([["pod other/pod was allocated no devices"]]);
  kubelet.stop();
  expect(await devices("default/web")).toMatchObject({
    code: 1,
    rows: [{}, ["v1", vf, "default/sriov (net1)", `${kubeletApi}, when it was attached`]],
    err: [expect.stringContaining("there is no socket")],
  });
});

test("devices prints the devices of resource claims that plexusd reads, with their requests", async () => {
  const request = (name: string) => [{ claim: "nic", request: name }];
  const claimed = {
    "dra.example/vf": [{ id: "0000:03:02.1", source: claim, claims: request("left") }],
    "": [{ id: "0000:03:02.2", source: claim, claims: request("right") }],
  };
  const recorded = [{ id: "0000:03:02.1", resourceName: "", source: claim }];
  const { asked, devices } = await nodeWith(claimed, recorded);
  const { code, rows } = await devices("web");
  expect({ code, asked }).toEqual({ code: 0, asked: ["default/web"] });
  expect(rows.slice(-2)).toEqual([
    [
      "0000:03:02.1",
      "dra.example/vf",
      "default/sriov (net1)",
      `${claim} (claim nic, request left)`,
    ],
    ["0000:03:02.2", "-", "-", `${claim} (claim nic, request right)`],
  ]);
});

test("devices without plexusd prints the kubelet's devices and the error", async () => {
  const { plexusd, devices } = await nodeWith({}, []);
  await plexusd.close();
  const { code, rows, err } = await devices("web");
  expect(code).toBe(1);
  expect(rows.map(([id]) => id)).toEqual(["DEVICE", "v1", "v2"]);
  expect(err).toEqual([expect.stringContaining("plexusd does not answer")]);
});
