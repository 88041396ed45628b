import { isJsonObject, type JsonObject } from "#lib/json.ts";
import type { DeviceName } from "./claim.ts";

/** What networks use of a device's attributes. */
export interface NetworkDevice {
  /** What plugins know it by; absent where its driver publishes none. */
  readonly id?: string;
  /** The resource that definitions name; absent where its driver publishes none. */
  readonly resourceName?: string;
}

/** Devices with their attributes, by {@link deviceKey}. */
export type DeviceAttributes = ReadonlyMap<string, NetworkDevice>;

/** One text for what names a device. */
export function deviceKey({ driver, pool, device }: DeviceName): string {
  return JSON.stringify([driver, pool, device]);
}

/** Reads the attributes as ResourceSlices and metadata files have them. */
export function networkDevice(attributes: unknown): NetworkDevice {
  const text = (name: string): string | undefined => {
    const value = isJsonObject(attributes) ? attributes[name] : undefined;
    const { string } = isJsonObject(value) ? value : ({} as JsonObject);
    return typeof string === "string" && string !== "" ? string : undefined;
  };
  const id = text("k8s.cni.cncf.io/deviceID") ?? text("resource.kubernetes.io/pciBusID");
  const resourceName = text("k8s.cni.cncf.io/resourceName");
  return {
    ...(id === undefined ? {} : { id }),
    ...(resourceName === undefined ? {} : { resourceName }),
  };
}
