import { CniError } from "#cni/error.ts";
import { isJsonObject, type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { type DeviceName, deviceKey } from "./claim.ts";

/** The attributes of a device that networks use. */
export interface NetworkDevice {
  /** The ID that plugins use; absent when the driver publishes none. */
  readonly id?: string;
  /** The resource that definitions name; absent when the driver publishes none. */
  readonly resourceName?: string;
}

/** Devices with their attributes, by {@link deviceKey}. */
export type DeviceAttributes = ReadonlyMap<string, NetworkDevice>;

/** Reads the attributes of ResourceSlices and metadata files. */
export function networkDevice(attributes: unknown): NetworkDevice {
  const text = (name: string): string | undefined => {
    const { string } = objectOf(objectOf(attributes)[name]);
    return typeof string === "string" && string !== "" ? string : undefined;
  };
  return omitUndefined({
    id: text("k8s.cni.cncf.io/deviceID") ?? text("resource.kubernetes.io/pciBusID"),
    resourceName: text("k8s.cni.cncf.io/resourceName"),
  });
}

/** Far more slices than a driver has on a node; reading on would delay the call. */
const maxSlices = 2000;

/**
 * The attributes of a driver's devices, from the newest generation of each pool's ResourceSlices.
 * @throws CniError 11 when a device is in none, as while its driver renews them; 100 for too many
 */
export async function devicesFromSlices(
  slices: AsyncIterable<JsonObject>,
  { driver, devices }: { readonly driver: string; readonly devices: readonly DeviceName[] },
): Promise<DeviceAttributes> {
  const wanted = new Set(devices.map(deviceKey));
  const pools = new Map<string, NewestSlices>();
  let count = 0;
  for await (const { spec } of slices) {
    if (++count > maxSlices) {
      const problem = `more than ${maxSlices} ResourceSlices for this node or for several`;
      throw new CniError("UnusableDevice", `driver ${driver} has ${problem}`);
    }
    if (isJsonObject(spec) && spec.driver === driver) addSlice(pools, spec, wanted);
  }
  const attributes = new Map([...pools.values()].flatMap((pool) => [...pool.devices]));
  const missing = devices.find((device) => !attributes.has(deviceKey(device)));
  if (missing === undefined) return attributes;
  const where = `of pool ${missing.pool}, which is in no ResourceSlice of driver ${missing.driver}`;
  const problem = `the pod was allocated the device ${missing.device} ${where}`;
  throw new CniError("DevicesUnknown", problem);
}

interface NewestSlices {
  readonly generation: number;
  readonly devices: ReadonlyMap<string, NetworkDevice>;
}

function addSlice(
  pools: Map<string, NewestSlices>,
  { driver, pool, devices }: JsonObject,
  wanted: ReadonlySet<string>,
): void {
  if (!isJsonObject(pool) || typeof pool.name !== "string") return;
  const generation = Number(pool.generation ?? 0);
  const newest = pools.get(pool.name);
  // The driver has not removed slices of older generations yet.
  if (newest !== undefined && newest.generation > generation) return;
  const found = new Map(newest?.generation === generation ? newest.devices : []);
  for (const { name, attributes } of objectsOf(devices)) {
    const key = deviceKey({ driver: String(driver), pool: pool.name, device: String(name) });
    if (wanted.has(key)) found.set(key, networkDevice(attributes));
  }
  pools.set(pool.name, { generation, devices: found });
}
