import { join } from "node:path";
import type { ResourceApi } from "#engine/ports/devices.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { textIfPresent } from "#lib/files/read-file.ts";
import { type Json, type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import { type AllocatedClaim, type ClaimedDevice, deviceKey } from "./claim.ts";
import {
  type DeviceAttributes,
  devicesFromSlices,
  type NetworkDevice,
  networkDevice,
} from "./slices.ts";

const knownVersions = [
  "metadata.resource.k8s.io/v1alpha1",
  "metadata.resource.k8s.io/v1beta1",
  "metadata.resource.k8s.io/v1",
];

export interface AttributeSources {
  readonly api: ResourceApi;
  /** The kubelet's directory, where drivers write device metadata. */
  readonly kubeletDir: string;
  readonly logger: Logger;
}

interface AllocatedClaims {
  readonly namespace: string;
  readonly claims: readonly AllocatedClaim[];
  readonly nodeName: string;
  readonly signal: AbortSignal;
}

interface MetadataRequest {
  readonly kubeletDir: string;
  readonly namespace: string;
  readonly claim: AllocatedClaim;
  readonly device: ClaimedDevice;
}

/**
 * The attributes of all devices of the claims, from the drivers' files or else from their slices.
 * @throws Error as {@link ResourceApi.listSlices} does
 */
export async function readAttributes(
  { api, kubeletDir, logger }: AttributeSources,
  { namespace, claims, ...node }: AllocatedClaims,
): Promise<DeviceAttributes> {
  const all = claims.flatMap((claim) => claim.devices.map((device) => ({ claim, device })));
  const attributes = new Map<string, NetworkDevice>();
  for (const { claim, device } of all) {
    try {
      const found = deviceFromMetadata({ kubeletDir, namespace, claim, device });
      if (found !== undefined) attributes.set(deviceKey(device), found);
    } catch (error) {
      // The slices have the same attributes.
      const { driver } = device;
      const fields = { err: error, driver, claim: `${namespace}/${claim.claimName}` };
      logger.warn(fields, "cannot read the driver's metadata of a device; using its slices");
    }
  }
  const others = all.map(({ device }) => device).filter((d) => !attributes.has(deviceKey(d)));
  for (const [driver, devices] of Map.groupBy(others, (device) => device.driver)) {
    const slices = api.listSlices(driver, node);
    for (const entry of await devicesFromSlices(slices, { driver, devices }))
      attributes.set(...entry);
  }
  return attributes;
}

/**
 * A device's attributes in its driver's file for the request (KEP-5304); undefined if not there.
 * @throws Error when the file is unreadable
 */
function deviceFromMetadata(wanted: MetadataRequest): NetworkDevice | undefined {
  const path = metadataPath(wanted);
  const text = path === undefined ? undefined : textIfPresent(path, "any");
  if (text === undefined) return undefined;
  // One object for each version of the format, each starting on a new line.
  const versions = text.split(/^(?=\{)/m).map((each) => JSON.parse(each) as Json);
  const metadata = objectsOf(versions).find(isKnown);
  if (objectOf(metadata?.metadata).uid !== wanted.claim.uid) return undefined;
  const key = deviceKey(wanted.device);
  const found = objectsOf(metadata?.requests)
    // `request/alternative` for a request with alternatives.
    .filter(({ name }) => String(name).split("/")[0] === wanted.device.request)
    .flatMap(({ devices }) => objectsOf(devices))
    .find(({ driver, pool, name }) => JSON.stringify([driver, pool, name]) === key);
  return found === undefined ? undefined : networkDevice(found.attributes);
}

/** Undefined when a name from the API would lead to another directory. */
function metadataPath(wanted: MetadataRequest): string | undefined {
  const { driver, request } = wanted.device;
  const claimDir = `${wanted.namespace}_${wanted.claim.claimName}`;
  const names = [driver, claimDir, request];
  if (names.some((name) => !/^[a-z0-9][-a-z0-9._]*$/.test(name))) return undefined;
  const dir = join(wanted.kubeletDir, "plugins", driver, "dra-device-metadata", claimDir);
  return join(dir, request, "metadata.json");
}

function isKnown({ kind, apiVersion }: JsonObject): boolean {
  return kind === "DeviceMetadata" && knownVersions.includes(String(apiVersion));
}
