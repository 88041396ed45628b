import { expect, test } from "vitest";
import { EngineLab, network } from "#engine/testing/engine-lab.ts";
import { FakeDevices } from "#engine/testing/fake-devices.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

/*
 * The plugins that take devices, each scripted to read its device as it does, and to fail where it would.
 */

const web = { pod: "default/web" };
const resource = "vendor.example/dev";
const needsDevice = { "k8s.v1.cni.cncf.io/resourceName": resource };
const pciAddress = "0000:03:02.1";
const auxiliary = "mlx5_core.sf.4";

/** What a plugin is executed with. */
interface Read {
  readonly conf: JsonObject;
  readonly runtimeConfig: JsonObject;
  /** The file at `runtimeConfig.CNIDeviceInfoFile`; undefined where there is none. */
  readonly info: Json | undefined;
}

interface Consumer {
  readonly type: string;
  readonly device: string;
  /** Keys of its configuration. */
  readonly keys?: JsonObject;
  /** What its device plugin wrote of the device. */
  readonly written?: JsonObject;
  /** Whether the plugin finds its device where it looks. */
  readonly finds: (read: Read, device: string) => boolean;
}

const byDeviceId: Consumer["finds"] = ({ conf }, device) => conf.deviceID === device;
const isPciAddress = (id: unknown): boolean =>
  typeof id === "string" && /^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$/.test(id);

const pciInfo = { type: "pci", version: "1.1.0", pci: { "pci-address": pciAddress } };
const vdpaInfo = {
  type: "vdpa",
  version: "1.1.0",
  vdpa: { "parent-device": "vdpa1", driver: "vhost", path: "/dev/vhost-vdpa-0" },
};
const vhostUserInfo = {
  type: "vhost-user",
  version: "1.1.0",
  "vhost-user": { mode: "client", path: "/run/vhost/vhu-1" },
};
const infoFile = { capabilities: { CNIDeviceInfoFile: true } };

const consumers: Consumer[] = [
  {
    type: "sriov",
    device: pciAddress,
    finds: ({ conf }, device) => isPciAddress(conf.deviceID) && conf.deviceID === device,
  },
  {
    type: "host-device",
    device: pciAddress,
    finds: ({ conf }, device) => conf.pciBusID === device,
  },
  {
    type: "host-device",
    device: auxiliary,
    keys: { capabilities: { deviceID: true } },
    // It looks up any pciBusID that there is, whatever else it was given, and fails when that is no PCI device.
    finds: ({ conf, runtimeConfig }, device) =>
      conf.pciBusID === undefined && runtimeConfig.deviceID === device,
  },
  {
    type: "ovs",
    device: pciAddress,
    keys: infoFile,
    written: pciInfo,
    finds: (read, device) =>
      byDeviceId(read, device) && JSON.stringify(read.info) === JSON.stringify(pciInfo),
  },
  { type: "ovn-k8s-cni-overlay", device: auxiliary, finds: byDeviceId },
  { type: "rdma", device: pciAddress, finds: byDeviceId },
  { type: "rdma", device: auxiliary, finds: byDeviceId },
  // The name of a link that its device plugin made.
  { type: "macvtap", device: "eth0Mvp3", finds: byDeviceId },
  {
    type: "vdpa",
    device: "vdpa1",
    keys: infoFile,
    written: vdpaInfo,
    finds: ({ info }, device) =>
      isJsonObject(info) && isJsonObject(info.vdpa) && info.vdpa["parent-device"] === device,
  },
  {
    type: "userspace",
    device: "vhu-1",
    keys: infoFile,
    written: vhostUserInfo,
    finds: ({ info }) => isJsonObject(info) && isJsonObject(info["vhost-user"]),
  },
];

test.for(consumers)(
  "$type finds the device $device where it looks for it, at ADD, CHECK and DEL [D-4] [D-6] [D-20]",
  async ({ type, device, keys = {}, written, finds }) => {
    const kubelet = new FakeDevices().allocate(resource, device);
    const lab = new EngineLab({ deviceSources: [kubelet], config: { checkDelegates: "all" } });
    const conf = { ...network("net"), plugins: [{ type, ...keys }] };
    lab.source.addNad("default/net", conf, needsDevice);
    lab.source.addPod({ name: "web", annotations: { [networksAnnotation]: "net" } });
    const dpFile = `/var/run/k8s.cni.cncf.io/devinfo/dp/vendor.example-dev-${device}-device.json`;
    if (written !== undefined) lab.deviceInfo.files.set(dpFile, JSON.stringify(written));
    lab.plugins.script(type, ({ conf }) => {
      const runtimeConfig = isJsonObject(conf.runtimeConfig) ? conf.runtimeConfig : {};
      const file = lab.deviceInfo.files.get(String(runtimeConfig.CNIDeviceInfoFile));
      const info = file === undefined ? undefined : parseJsonText(file);
      const isFound = finds({ conf, runtimeConfig, info }, device);
      return isFound ? undefined : failed(7, "there is no device");
    });
    expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
    kubelet.failure = new Error("what is recorded is enough");
    expect(await lab.check(web)).toMatchObject({ exitCode: 0 });
    expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
    expect(lab.plugins.log().filter((line) => line.startsWith(type))).toEqual(
      ["ADD", "CHECK", "DEL"].map((command) => `${type} ${command} net1`),
    );
  },
);
