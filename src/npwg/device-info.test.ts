import { expect, test } from "vitest";
import { cniDeviceInfoPath, dpDeviceInfoPath, parseDeviceInfo } from "./device-info.ts";

test("the paths are those of the device-info specification, slashes made hyphens", () => {
  expect(dpDeviceInfoPath({ resourceName: "intel.com/sriov", deviceId: "0000:04:00.5" })).toBe(
    "/var/run/k8s.cni.cncf.io/devinfo/dp/intel.com-sriov-0000:04:00.5-device.json",
  );
  expect(cniDeviceInfoPath({ displayName: "ns/net", containerId: "abc", ifName: "net1" })).toBe(
    "/var/run/k8s.cni.cncf.io/devinfo/cni/ns-net-abc_net1",
  );
});

test("the paths stay in their directories [S-302]", () => {
  expect(dpDeviceInfoPath({ resourceName: "../..", deviceId: "../../etc" })).toBe(
    "/var/run/k8s.cni.cncf.io/devinfo/dp/..-..-..-..-etc-device.json",
  );
  expect(() => dpDeviceInfoPath({ resourceName: "a", deviceId: "" })).toThrow(
    'device ID "" is unusable',
  );
  expect(() => cniDeviceInfoPath({ displayName: "a\0", containerId: "b", ifName: "c" })).toThrow(
    "is unusable",
  );
});

test("parseDeviceInfo() keeps what it does not know", () => {
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
])("parseDeviceInfo(%j) is refused", (text, message) => {
  expect(() => parseDeviceInfo(text, "/f")).toThrow(message);
  expect(() => parseDeviceInfo(text, "/f")).toThrow(expect.objectContaining({ code: 6 }));
});
