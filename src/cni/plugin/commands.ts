import { CniError } from "#cni/error.ts";
import { validateContainerId, validateIfName, validateIfNameOfDel } from "#cni/names.ts";
import {
  compareVersions,
  currentVersion,
  isAtLeast,
  isSupportedVersion,
  requireSupportedVersion,
  supportedVersions,
} from "#cni/versions.ts";

/** The environment of a call. */
export type Env = Readonly<Record<string, string | undefined>>;

/**
 * The variables that each command needs (CNI 1.1.0 §2 and §4), and the version that introduced it.
 * The order of the checks decides which error is reported.
 * CNI_PATH is required only where the specification says so: Plexus may have a configured path.
 */
const commands = {
  ADD: { required: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"], since: "0.1.0" },
  DEL: { required: ["CNI_CONTAINERID", "CNI_IFNAME"], since: "0.1.0" },
  CHECK: { required: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"], since: "0.4.0" },
  STATUS: { required: [], since: "1.1.0" },
  GC: { required: ["CNI_PATH"], since: "1.1.0" },
} as const satisfies Record<string, { required: readonly string[]; since: string }>;

/** The commands that the engine serves; the shim answers VERSION. */
export type Command = keyof typeof commands;

export function isCommand(name: string): name is Command {
  return Object.hasOwn(commands, name);
}

/**
 * Checks the variables that a command needs; for an unknown command, only CNI_COMMAND itself.
 * @throws CniError 3 or 4: the first malformed variable at once, missing ones all together
 */
export function checkVariables(env: Env, command: Command | undefined): void {
  const missing: string[] = [];
  const required = command === undefined ? [] : commands[command].required;
  for (const name of ["CNI_COMMAND", ...required]) {
    const value = env[name] ?? "";
    if (value === "") missing.push(name);
    else if (name === "CNI_CONTAINERID") validateContainerId(value);
    else if (name === "CNI_IFNAME" && command === "DEL") validateIfNameOfDel(value);
    else if (name === "CNI_IFNAME") validateIfName(value, name);
  }
  if (missing.length === 0) return;
  throw new CniError(
    "InvalidEnvironmentVariables",
    `required env variables [${missing.join(",")}] missing`,
  );
}

/**
 * The version of a configuration, if Plexus supports it and it has the command. A DEL has any: what
 * was attached must be detached, whatever the configuration says now.
 * @throws CniError 1; 6 for CHECK, STATUS or GC with an invalid version
 */
export function checkedVersion(command: Command, cniVersion: string): string {
  if (command === "DEL") return isSupportedVersion(cniVersion) ? cniVersion : currentVersion;
  const { since } = commands[command];
  // Every version has ADD: only the list of versions decides, as in Go.
  if (since !== "0.1.0") {
    if (!isAtLeast(cniVersion, since)) throw notAllowed("config", command);
    if (!supportedVersions.some((version) => compareVersions(version, cniVersion) >= 0)) {
      throw notAllowed("plugin", command);
    }
  }
  requireSupportedVersion(cniVersion);
  return cniVersion;
}

function notAllowed(whose: "config" | "plugin", command: Command): CniError {
  return new CniError("IncompatibleCniVersion", `${whose} version does not allow ${command}`);
}
