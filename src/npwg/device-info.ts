import { parseJson, readDocument } from "#cni/document.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";
import { type JsonObject, quoteValue } from "#lib/json.ts";

/** Where device plugins and CNI plugins leave device information (NPWG device-info specification). */
const deviceInfoDir = "/var/run/k8s.cni.cncf.io/devinfo";

/** The part of it that is for attachments. */
export const cniDeviceInfoDir: string = `${deviceInfoDir}/cni`;

const fileNameMaxBytes = 255;

/** The file in which a device plugin describes one of its devices. @throws CniError 7 */
export function dpDeviceInfoPath(device: { resourceName: string; deviceId: string }): string {
  const resource = flatName("resource name", device.resourceName);
  const name = `${resource}-${flatName("device ID", device.deviceId)}-device.json`;
  return `${deviceInfoDir}/dp/${checkedName(name)}`;
}

/** The file in which an attachment's device is described; the `CNIDeviceInfoFile` capability. @throws CniError 7 */
export function cniDeviceInfoPath(attachment: { containerId: string; ifName: string }): string {
  const sandbox = flatName("container ID", attachment.containerId);
  const name = `${ownPrefix}${sandbox}@${flatName("interface name", attachment.ifName)}.json`;
  return `${cniDeviceInfoDir}/${checkedName(name)}`;
}

/** The container whose attachment a file in {@link cniDeviceInfoDir} is for; undefined when it is not ours. */
export function ownerOfCniDeviceInfo(fileName: string): string | undefined {
  return ownFile.exec(fileName)?.[1];
}

/**
 * The specification wants a name that nobody else has. Multus takes the network's besides; by ours a file is
 * known to be ours, and of which container, so that it can be removed without a record.
 */
const ownPrefix = "plexus-";
const ownFile = /^plexus-([A-Za-z0-9][\w.-]*)@[^/]+\.json$/s;

function checkedName(name: string): string {
  const bytes = Buffer.byteLength(name);
  if (bytes <= fileNameMaxBytes) return name;
  throw new CniError(
    CniErrorCode.InvalidNetworkConfig,
    `device information: the name of its file would have ${bytes} bytes, more than ${fileNameMaxBytes}`,
  );
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
