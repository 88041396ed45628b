import { byteLength } from "#lib/byte-length.ts";
import { CniError } from "./error.ts";

/** The characters of container IDs, network names and plugin types: CNI 1.0.0 §1 and §2. */
const plainName = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;

/** Go's unicode.IsSpace: JavaScript's \s and U+0085. U+FEFF is harmless to add. */
const forbiddenInIfName = /[/:\s\u0085]/u;

/** The kernel's IFNAMSIZ, which counts the terminating zero. */
const ifNameMaxBytes = 15;

/** The longest container ID, because it is part of file names. The shim has the same limit. */
const containerIdMax = 200;

/** @throws CniError 3 when empty, 4 when too long or with forbidden characters */
export function validateContainerId(containerId: string): void {
  if (containerId === "") {
    throw new CniError("UnknownContainer", "missing containerID");
  }
  if (containerId.length > containerIdMax) {
    const { length } = containerId;
    throw invalid(`containerID has ${length} characters, more than ${containerIdMax}`);
  }
  if (!plainName.test(containerId)) throw invalid("invalid characters in containerID", containerId);
}

function invalid(message: string, details?: string): CniError {
  return new CniError("InvalidEnvironmentVariables", message, { details });
}

/** @throws CniError 7 when empty or with characters that the specification forbids */
export function validateNetworkName(name: string): void {
  if (name === "") {
    throw new CniError("InvalidNetworkConfig", "missing network name:");
  }
  if (!plainName.test(name)) {
    throw new CniError("InvalidNetworkConfig", "invalid characters found in network name", {
      details: name,
    });
  }
}

/** Whether the text can be a network's name or, as a plain file name, a plugin's `type`. */
export function isPlainName(text: string): boolean {
  return plainName.test(text);
}

/** @throws CniError 4 when Linux would reject it as an interface name */
export function validateIfName(ifName: string): void {
  if (ifName === "") throw invalid("interface name is empty");
  if (byteLength(ifName) > ifNameMaxBytes) {
    throw invalid("interface name is too long", "interface name should be less than 16 characters");
  }
  if (ifName === "." || ifName === "..") throw invalid("interface name is . or ..");
  if (forbiddenInIfName.test(ifName)) {
    throw invalid("interface name contains / or : or whitespace characters");
  }
}
