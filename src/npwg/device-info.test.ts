import { basename } from "node:path";
import { expect, test } from "vitest";
import {
  cniDeviceInfoPath,
  dpDeviceInfoPath,
  ownerOfCniDeviceInfo,
  parseDeviceInfo,
} from "./device-info.ts";

test("device-info paths follow the specification, with hyphens in place of slashes [D-19]", () => {
  expect(dpDeviceInfoPath({ resourceName: "intel.com/sriov", deviceId: "0000:04:00.5" })).toBe(
    "/var/run/k8s.cni.cncf.io/devinfo/dp/intel.com-sriov-0000:04:00.5-device.json",
  );
  const path = cniDeviceInfoPath({ containerId: "abc", ifName: "net1" });
  expect(path).toBe("/var/run/k8s.cni.cncf.io/devinfo/cni/plexus-abc@net1.json");
});

test("ownerOfCniDeviceInfo() returns the container of Plexus's files, and ignores other files", () => {
  const path = cniDeviceInfoPath({ containerId: "a.b_c-1", ifName: "net1@x" });
  expect(ownerOfCniDeviceInfo(basename(path))).toBe("a.b_c-1");
  for (const other of [
    "ns-net-abc_net1",
    "plexus-abc",
    "plexus-@net1.json",
    ".plexus-a@b.json",
    "plexus-a@b.json~",
  ]) {
    expect(ownerOfCniDeviceInfo(other)).toBeUndefined();
  }
});

test("device-info paths cannot leave their directories [S-302] [D-21]", () => {
  expect(dpDeviceInfoPath({ resourceName: "../..", deviceId: "../../etc" })).toBe(
    "/var/run/k8s.cni.cncf.io/devinfo/dp/..-..-..-..-etc-device.json",
  );
  expect(() => dpDeviceInfoPath({ resourceName: "a", deviceId: "" })).toThrow(
    expect.objectContaining({ code: 7, message: 'device information: device ID "" is unusable' }),
  );
  expect(() => cniDeviceInfoPath({ containerId: "b\0", ifName: "c" })).toThrow("is unusable");
  const long = { resourceName: "r".repeat(200), deviceId: "d".repeat(60) };
  expect(() => dpDeviceInfoPath(long)).toThrow("would have 273 bytes, more than 255");
  expect(basename(dpDeviceInfoPath({ ...long, deviceId: "d".repeat(42) }))).toHaveLength(255);
});

test("parseDeviceInfo() keeps unknown fields and types [D-18]", () => {
  const info = {
    type: "pci",
    version: "1.1.0",
    pci: { "pci-address": "0000:04:00.5", new: 1 },
    other: [1],
  };
  expect(parseDeviceInfo(JSON.stringify(info), "/f")).toEqual(info);
  expect(parseDeviceInfo('{"type": "novel"}', "/f")).toEqual({ type: "novel" });
});

test.each([
  [
    "",
    "device information /f: not valid JSON: unexpected end, expected a value at line 1, column 1",
  ],
  ["[]", "must be an object, got []"],
  ["{}", "type: is missing"],
  ['{"type": ""}', "type: is missing"],
  ['{"type": 1}', "type: must be a string, got 1"],
  ['{"type": "pci", "version": 1}', "version: must be a string, got 1"],
  ['{"type": "pci", "pci": "0000:04:00.5"}', 'pci: must be an object, got "0000:04:00.5"'],
  ['{"type": "vdpa", "vhost-user": []}', "vhost-user: must be an object, got []"],
])("parseDeviceInfo() rejects %j", (text, message) => {
  expect(() => parseDeviceInfo(text, "/f")).toThrow(message);
  expect(() => parseDeviceInfo(text, "/f")).toThrow(expect.objectContaining({ code: 6 }));
});
