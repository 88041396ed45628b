import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { DeviceName } from "./claim.ts";

/** The attributes of a device that networks use. */
export interface NetworkDevice {
  /** The ID that plugins use; absent when the driver publishes none. */
  readonly id?: string;
  /** The resource that definitions name; absent when the driver publishes none. */
  readonly resourceName?: string;
}

/** Devices with their attributes, by {@link deviceKey}. */
export type DeviceAttributes = ReadonlyMap<string, NetworkDevice>;

/** A map key for a device. */
export function deviceKey({ driver, pool, device }: DeviceName): string {
  return JSON.stringify([driver, pool, device]);
}

/** Reads the attributes of ResourceSlices and metadata files. */
export function networkDevice(attributes: unknown): NetworkDevice {
  const text = (name: string): string | undefined => {
    const value = isJsonObject(attributes) ? attributes[name] : undefined;
    const { string } = isJsonObject(value) ? value : ({} as JsonObject);
    return typeof string === "string" && string !== "" ? string : undefined;
  };
  return omitUndefined({
    id: text("k8s.cni.cncf.io/deviceID") ?? text("resource.kubernetes.io/pciBusID"),
    resourceName: text("k8s.cni.cncf.io/resourceName"),
  });
}
