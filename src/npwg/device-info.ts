import { CniError, CniErrorCode } from "#cni/error.ts";
import { isJsonObject, type JsonObject, jsonTypeName } from "#lib/json.ts";
import { JsonTextError, parseJsonText } from "#lib/json-text.ts";

/** Where device plugins and CNI plugins leave device information (NPWG device-info specification). */
const deviceInfoDir = "/var/run/k8s.cni.cncf.io/devinfo";

/** The file in which a device plugin describes one of its devices. @throws CniError 7 */
export function dpDeviceInfoPath(device: { resourceName: string; deviceId: string }): string {
  const resource = flatName("resource name", device.resourceName);
  return `${deviceInfoDir}/dp/${resource}-${flatName("device ID", device.deviceId)}-device.json`;
}

/** The file in which an attachment's device is described; the `CNIDeviceInfoFile` capability. @throws CniError 7 */
export function cniDeviceInfoPath(attachment: {
  displayName: string;
  containerId: string;
  ifName: string;
}): string {
  const network = flatName("network name", attachment.displayName);
  const sandbox = flatName("container ID", attachment.containerId);
  return `${deviceInfoDir}/cni/${network}-${sandbox}_${flatName("interface name", attachment.ifName)}`;
}

/** One component of a file name; slashes become hyphens, as in Multus. */
function flatName(what: string, text: string): string {
  if (text !== "" && !text.includes("\0")) return text.replaceAll("/", "-");
  throw new CniError(
    CniErrorCode.InvalidNetworkConfig,
    `device information: ${what} ${JSON.stringify(text)} is unusable`,
  );
}

/** What the status shows of a device: the file's content, other implementations' keys included. */
export type DeviceInfo = JsonObject;

/** The kinds of device that the specification knows; each has its details under a key of its name. */
const deviceKinds = ["pci", "vdpa", "vhost-user", "memif"];

/**
 * Reads device information. `type` is required and the details of known kinds must be objects;
 * everything else is kept as it is.
 *
 * @throws CniError 6 naming the field.
 */
export function parseDeviceInfo(text: string, source: string): DeviceInfo {
  const fail = (reason: string): never => {
    throw new CniError(CniErrorCode.DecodingFailure, `device information ${source}: ${reason}`);
  };
  const info = parseText(text, fail);
  if (!isJsonObject(info)) return fail(`is ${jsonTypeName(info)}, must be an object`);
  if (typeof info.type !== "string" || info.type === "")
    return fail("type: must be a non-empty string");
  if (info.version !== undefined && typeof info.version !== "string")
    return fail("version: must be a string");
  for (const kind of deviceKinds) {
    const details = info[kind];
    if (details !== undefined && !isJsonObject(details)) return fail(`${kind}: must be an object`);
  }
  return info;
}

function parseText(text: string, fail: (reason: string) => never): unknown {
  try {
    return parseJsonText(text);
  } catch (error) {
    if (error instanceof JsonTextError) return fail(`not valid JSON: ${error.message}`);
    throw error;
  }
}
