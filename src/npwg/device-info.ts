import { parseJson, readDocument } from "#cni/document.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";
import { type JsonObject, quoteValue } from "#lib/json.ts";

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
function flatName(part: string, text: string): string {
  if (text !== "" && !text.includes("\0")) return text.replaceAll("/", "-");
  throw new CniError(
    CniErrorCode.InvalidNetworkConfig,
    `device information: ${part} ${quoteValue(text)} is unusable`,
  );
}

/** What the status shows of a device: the file's content, other implementations' keys included. */
type DeviceInfo = JsonObject;

/** The kinds of device that the specification knows; each has its details under a key of its name. */
const deviceKinds = ["pci", "vdpa", "vhost-user", "memif"];

/**
 * Reads device information. `type` is required and the details of known kinds must be objects;
 * everything else is kept as it is.
 *
 * @throws CniError 6 naming the field.
 */
export function parseDeviceInfo(text: string, source: string): DeviceInfo {
  const subject = `device information ${source}`;
  const code = CniErrorCode.DecodingFailure;
  return readDocument(parseJson(text, subject), { subject, code }, (fields) => {
    fields.required("type");
    fields.string("version");
    for (const kind of deviceKinds) fields.object(kind);
    return fields.raw;
  });
}
