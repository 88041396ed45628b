import { byteLength } from "#lib/byte-length.ts";
import { withValue } from "#lib/parsing/document-error.ts";
import { CniError } from "./error.ts";

/** The characters of container IDs, network names and plugin types: CNI 1.0.0 §1 and §2. */
const plainName = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;

/** Go's unicode.IsSpace: JavaScript's \s and U+0085. U+FEFF is harmless to add. */
const forbiddenInIfName = /[/:\s\u0085]/u;

/** The kernel's IFNAMSIZ, which counts the terminating zero. */
const ifNameMaxBytes = 15;

/** Names that the kernel reserves in /proc/sys/net/ipv4/conf. */
const sysctlNames = ["all", "default"];

/** The longest container ID, because it is part of file names. The shim has the same limit. */
const containerIdMax = 200;

/** @throws CniError 3 when empty, 4 when too long or with forbidden characters */
export function validateContainerId(containerId: string): void {
  if (containerId === "") throw new CniError("UnknownContainer", "missing containerID");
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
  if (name === "") throw new CniError("InvalidNetworkConfig", "missing network name:");
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

/**
 * Why a container cannot have an interface of this name, undefined when it can: the rules of Go's
 * plugins, and of the kernel, which expands `%` and reserves two names (multi-network specification
 * v1.1 §4.1.2.1.5). Control characters only hide what a name is.
 */
export function ifNameProblem(ifName: string): string | undefined {
  return problemInGo(ifName) ?? problemOfKernel(ifName);
}

/**
 * @param subject what has the name, for messages that Go's plugins do not have
 * @throws CniError 4 for an {@link ifNameProblem}
 */
export function validateIfName(ifName: string, subject?: string): void {
  validateIfNameOfDel(ifName);
  const problem = problemOfKernel(ifName);
  if (problem === undefined) return;
  const prefix = subject === undefined ? "" : `${subject}: `;
  throw invalid(`${prefix}${withValue(problem, ifName)}`);
}

/**
 * Accepts what only the kernel refuses: the ADD attached nothing under that name, and the runtime
 * repeats a DEL until it succeeds.
 * @throws CniError 4 when Go's plugins reject it
 */
export function validateIfNameOfDel(ifName: string): void {
  const problem = problemInGo(ifName);
  if (problem === undefined) return;
  const details =
    problem === tooLong ? "interface name should be less than 16 characters" : undefined;
  throw invalid(problem, details);
}

const tooLong = "interface name is too long";

function problemInGo(ifName: string): string | undefined {
  if (ifName === "") return "interface name is empty";
  if (byteLength(ifName) > ifNameMaxBytes) return tooLong;
  if (ifName === "." || ifName === "..") return "interface name is . or ..";
  return forbiddenInIfName.test(ifName)
    ? "interface name contains / or : or whitespace characters"
    : undefined;
}

function problemOfKernel(ifName: string): string | undefined {
  if (/[\p{Cc}%]/u.test(ifName)) return "interface name contains % or a control character";
  return sysctlNames.includes(ifName) ? "interface name is reserved by the kernel" : undefined;
}
