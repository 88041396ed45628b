import { CniError } from "#cni/error.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import type { DeviceName } from "./claim.ts";
import {
  type DeviceAttributes,
  deviceKey,
  type NetworkDevice,
  networkDevice,
} from "./device-attributes.ts";

/** Far more slices than a driver has on a node; reading on would delay the call. */
const maxSlices = 2000;

/**
 * The attributes of a driver's devices, from the newest generation of each pool's ResourceSlices.
 * @throws CniError 11 when a device is in none, as while its driver publishes them again; 100 for
 * too many slices
 */
export async function devicesFromSlices(
  slices: AsyncIterable<JsonObject>,
  { driver, devices }: { readonly driver: string; readonly devices: readonly DeviceName[] },
): Promise<DeviceAttributes> {
  const wanted = new Set(devices.map(deviceKey));
  const pools = new Map<string, NewestSlices>();
  let count = 0;
  for await (const { spec } of slices) {
    if (++count > maxSlices) throw tooMany(driver);
    const pool = isJsonObject(spec) && spec.driver === driver ? poolOf(spec) : undefined;
    if (pool !== undefined) addSlice(pools, { ...pool, devices: wantedDevices(pool, wanted) });
  }
  const attributes = new Map([...pools.values()].flatMap((pool) => [...pool.devices]));
  const missing = devices.find((device) => !attributes.has(deviceKey(device)));
  if (missing !== undefined) throw notPublished(missing);
  return attributes;
}

interface NewestSlices {
  readonly generation: number;
  readonly devices: ReadonlyMap<string, NetworkDevice>;
}

/** Older generations are slices that the driver has not removed yet. */
function addSlice(
  pools: Map<string, NewestSlices>,
  slice: NewestSlices & { readonly pool: string },
): void {
  const newest = pools.get(slice.pool);
  if (newest !== undefined && newest.generation > slice.generation) return;
  const before = newest?.generation === slice.generation ? newest.devices : [];
  pools.set(slice.pool, { ...slice, devices: new Map([...before, ...slice.devices]) });
}

interface PoolSlice {
  readonly driver: string;
  readonly pool: string;
  readonly generation: number;
  readonly listed: readonly JsonObject[];
}

function poolOf({ driver, pool, devices }: JsonObject): PoolSlice | undefined {
  if (!isJsonObject(pool) || typeof pool.name !== "string") return undefined;
  const listed = Array.isArray(devices) ? devices.filter(isJsonObject) : [];
  const generation = Number(pool.generation ?? 0);
  return { driver: String(driver), pool: pool.name, generation, listed };
}

function wantedDevices(
  { driver, pool, listed }: PoolSlice,
  wanted: ReadonlySet<string>,
): ReadonlyMap<string, NetworkDevice> {
  const keyed = listed.map(
    ({ name, attributes }) =>
      [deviceKey({ driver, pool, device: String(name) }), attributes] as const,
  );
  return new Map(
    keyed
      .filter(([key]) => wanted.has(key))
      .map(([key, attributes]) => [key, networkDevice(attributes)]),
  );
}

function notPublished({ driver, pool, device }: DeviceName): CniError {
  return new CniError(
    "DevicesUnknown",
    `the pod was allocated the device ${device} of pool ${pool}, which is in no ResourceSlice of driver ${driver}`,
  );
}

function tooMany(driver: string): CniError {
  return new CniError(
    "UnusableDevice",
    `driver ${driver} has more than ${maxSlices} ResourceSlices for this node or for several`,
  );
}
