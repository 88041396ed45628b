import { parseJson, readDocument } from "#cni/document.ts";
import { CniError } from "#cni/error.ts";
import { byteLength } from "#lib/byte-length.ts";
import { type JsonObject, quoteValue } from "#lib/json.ts";

/** The directory of device information (NPWG device-info specification). */
const deviceInfoDir = "/var/run/k8s.cni.cncf.io/devinfo";

/** The directory of CNI plugins' files, by attachment. */
export const cniDeviceInfoDir: string = `${deviceInfoDir}/cni`;

const fileNameMaxBytes = 255;

/** The capability whose argument is the file of an attachment. */
export const deviceInfoCapability = "CNIDeviceInfoFile";

/** The file in which a device plugin describes a device. @throws CniError 7 */
export function dpDeviceInfoPath(device: { resourceName: string; deviceId: string }): string {
  const resource = flatName("resource name", device.resourceName);
  const name = `${resource}-${flatName("device ID", device.deviceId)}-device.json`;
  return `${deviceInfoDir}/dp/${checkedName(name)}`;
}

/** The file of an attachment's device: the `CNIDeviceInfoFile` capability. @throws CniError 7 */
export function cniDeviceInfoPath(attachment: { containerId: string; ifName: string }): string {
  const sandbox = flatName("container ID", attachment.containerId);
  const name = `${ownPrefix}${sandbox}@${flatName("interface name", attachment.ifName)}.json`;
  return `${cniDeviceInfoDir}/${checkedName(name)}`;
}

/** The container of a file in {@link cniDeviceInfoDir}; undefined when the file is not Plexus's. */
export function ownerOfCniDeviceInfo(fileName: string): string | undefined {
  return ownFile.exec(fileName)?.[1];
}

/**
 * The specification requires a unique name. The prefix marks the file as Plexus's, and the
 * container ID allows its removal without a record.
 */
const ownPrefix = "plexus-";
const ownFile = /^plexus-([A-Za-z0-9][\w.-]*)@[^/]+\.json$/s;

function checkedName(name: string): string {
  const bytes = byteLength(name);
  if (bytes <= fileNameMaxBytes) return name;
  throw unusable(`the name of its file would have ${bytes} bytes, more than ${fileNameMaxBytes}`);
}

/** A component of a file name; slashes become hyphens, as in Multus. */
function flatName(part: string, text: string): string {
  if (text !== "" && !text.includes("\0")) return text.replaceAll("/", "-");
  throw unusable(`${part} ${quoteValue(text)} is unusable`);
}

function unusable(reason: string): CniError {
  return new CniError("InvalidNetworkConfig", `device information: ${reason}`);
}

/** The device types of the specification; each has its details under a key of the same name. */
const deviceKinds = ["pci", "vdpa", "vhost-user", "memif"];

/**
 * Reads device information. `type` is required, and the details of known types must be objects;
 * everything else is kept unchanged.
 * @throws CniError 6 naming the field
 */
export function parseDeviceInfo(text: string, source: string): JsonObject {
  const subject = `device information ${source}`;
  const reason = "DecodingFailure";
  return readDocument(parseJson(text, subject), { subject, reason }, (fields) => {
    fields.required("type");
    fields.string("version");
    for (const kind of deviceKinds) fields.object(kind);
    return fields.raw;
  });
}
