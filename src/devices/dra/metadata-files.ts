import { open } from "node:fs/promises";
import { join } from "node:path";
import { ifPresent } from "#lib/files/is-absent.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import type { AllocatedClaim, ClaimedDevice } from "./claim.ts";
import { deviceKey, type NetworkDevice, networkDevice } from "./device-attributes.ts";

const maxBytes = 1024 * 1024;

const knownVersions = [
  "metadata.resource.k8s.io/v1alpha1",
  "metadata.resource.k8s.io/v1beta1",
  "metadata.resource.k8s.io/v1",
];

interface MetadataRequest {
  readonly kubeletDir: string;
  readonly namespace: string;
  readonly claim: AllocatedClaim;
  readonly device: ClaimedDevice;
}

/**
 * A device's attributes in its driver's file for the request (KEP-5304); undefined if not there.
 * @throws Error when the file is unreadable
 */
export async function deviceFromMetadata(
  wanted: MetadataRequest,
): Promise<NetworkDevice | undefined> {
  const path = metadataPath(wanted);
  const text = path === undefined ? undefined : await readLimited(path);
  if (text === undefined) return undefined;
  // One object for each version of the format, each starting on a new line.
  const versions = text.split(/^(?=\{)/m).map((each) => JSON.parse(each) as Json);
  const metadata = versions.filter(isJsonObject).find(isKnown);
  if (metadata === undefined || uidOf(metadata) !== wanted.claim.uid) return undefined;
  const key = deviceKey(wanted.device);
  const found = objects(metadata.requests)
    // `request/alternative` for a request with alternatives.
    .filter(({ name }) => String(name).split("/")[0] === wanted.device.request)
    .flatMap(({ devices }) => objects(devices))
    .find(({ driver, pool, name }) => JSON.stringify([driver, pool, name]) === key);
  return found === undefined ? undefined : networkDevice(found.attributes);
}

/** Undefined when a name from the API would lead to another directory. */
function metadataPath({
  kubeletDir,
  namespace,
  claim,
  device,
}: MetadataRequest): string | undefined {
  const claimDir = `${namespace}_${claim.name}`;
  const names = [device.driver, claimDir, device.request];
  if (names.some((name) => !/^[a-z0-9][-a-z0-9._]*$/.test(name))) return undefined;
  const dir = join(kubeletDir, "plugins", device.driver, "dra-device-metadata", claimDir);
  return join(dir, device.request, "metadata.json");
}

async function readLimited(path: string): Promise<string | undefined> {
  await using file = await ifPresent(open(path));
  if (file === undefined) return undefined;
  const buffer = Buffer.alloc(maxBytes + 1);
  const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
  if (bytesRead > maxBytes) throw new Error(`${path} is longer than ${maxBytes} bytes`);
  return buffer.toString("utf8", 0, bytesRead);
}

function isKnown({ kind, apiVersion }: JsonObject): boolean {
  return kind === "DeviceMetadata" && knownVersions.includes(String(apiVersion));
}

function uidOf({ metadata }: JsonObject): unknown {
  return isJsonObject(metadata) ? metadata.uid : undefined;
}

function objects(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}
