import { CniError, CniErrorCode } from "./error.ts";

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
    throw new CniError(CniErrorCode.UnknownContainer, "missing containerID");
  }
  if (containerId.length > containerIdMax) {
    throw new CniError(
      CniErrorCode.InvalidEnvironmentVariables,
      `containerID has ${containerId.length} characters, more than ${containerIdMax}`,
    );
  }
  if (!plainName.test(containerId)) {
    throw new CniError(
      CniErrorCode.InvalidEnvironmentVariables,
      "invalid characters in containerID",
      { details: containerId },
    );
  }
}

/** @throws CniError 7 when empty or with characters that the specification forbids */
export function validateNetworkName(name: string): void {
  if (name === "") {
    throw new CniError(CniErrorCode.InvalidNetworkConfig, "missing network name:");
  }
  if (!plainName.test(name)) {
    throw new CniError(
      CniErrorCode.InvalidNetworkConfig,
      "invalid characters found in network name",
      { details: name },
    );
  }
}

/** Whether the text is a valid network name. */
export function isNetworkName(name: string): boolean {
  return plainName.test(name);
}

/** Whether the text is a plain file name, as a plugin's `type` must be: CNI 1.0.0 §1. */
export function isPluginType(type: string): boolean {
  return plainName.test(type);
}

/** @throws CniError 4 when Linux would reject it as an interface name */
export function validateIfName(ifName: string): void {
  const problem = ifNameProblem(ifName);
  if (problem === undefined) return;
  const tooLong = problem.endsWith("long");
  throw new CniError(
    CniErrorCode.InvalidEnvironmentVariables,
    problem,
    tooLong ? { details: "interface name should be less than 16 characters" } : {},
  );
}

function ifNameProblem(ifName: string): string | undefined {
  if (ifName === "") return "interface name is empty";
  if (new TextEncoder().encode(ifName).length > ifNameMaxBytes) return "interface name is too long";
  if (ifName === "." || ifName === "..") return "interface name is . or ..";
  if (forbiddenInIfName.test(ifName)) {
    return "interface name contains / or : or whitespace characters";
  }
  return undefined;
}
