import { CniError, CniErrorCode } from "#cni/error.ts";
import { validateContainerId, validateIfName } from "#cni/names.ts";
import {
  compareVersions,
  isAtLeast,
  requireSupportedVersion,
  supportedVersions,
} from "#cni/versions.ts";

/** The environment of a call. */
export type Env = Readonly<Record<string, string | undefined>>;

/**
 * What each command needs: CNI 1.1.0 §2 and §4; `since` is the version that brought it. CNI_PATH
 * is required where the specification requires it, not wherever Go's plugins do: the search path
 * may come from our own configuration.
 */
const commands = {
  ADD: { required: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"], since: "0.1.0" },
  DEL: { required: ["CNI_CONTAINERID", "CNI_IFNAME"], since: "0.1.0" },
  CHECK: { required: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"], since: "0.4.0" },
  STATUS: { required: [], since: "1.1.0" },
  GC: { required: ["CNI_PATH"], since: "1.1.0" },
} as const satisfies Record<string, { required: readonly string[]; since: string }>;

/** What a runtime may ask of the engine; VERSION the shim answers. */
export type Command = keyof typeof commands;

/** In the order in which they are looked at, which decides which error comes first. */
const variables: readonly { name: string; validate?: (value: string) => void }[] = [
  { name: "CNI_COMMAND" },
  { name: "CNI_CONTAINERID", validate: validateContainerId },
  { name: "CNI_NETNS" },
  { name: "CNI_IFNAME", validate: validateIfName },
  { name: "CNI_PATH" },
];

/** Whether it is a command that the engine serves. */
export function isCommand(name: string): name is Command {
  return Object.hasOwn(commands, name);
}

/**
 * Checks the variables that a command needs; an unknown one needs none but itself.
 * @throws CniError 3 or 4: the first malformed one at once, the missing ones all together
 */
export function checkVariables(env: Env, command: Command | undefined): void {
  const required = new Set<string>(["CNI_COMMAND"]);
  for (const name of command === undefined ? [] : commands[command].required) required.add(name);
  const missing: string[] = [];
  for (const { name, validate } of variables.filter((variable) => required.has(variable.name))) {
    const value = env[name] ?? "";
    if (value === "") missing.push(name);
    else validate?.(value);
  }
  if (missing.length === 0) return;
  throw new CniError(
    CniErrorCode.InvalidEnvironmentVariables,
    `required env variables [${missing.join(",")}] missing`,
  );
}

/**
 * Checks that a configuration's version has the command and is one of ours.
 * @throws CniError 1; 6 when CHECK, STATUS or GC come with what is no version
 */
export function checkVersion(command: Command, cniVersion: string): void {
  const { since } = commands[command];
  // ADD and DEL, which every version has, are judged by the literal test alone, as in Go.
  if (since !== "0.1.0") {
    if (!isAtLeast(cniVersion, since)) throw notAllowed("config", command);
    if (!supportedVersions.some((version) => compareVersions(version, cniVersion) >= 0)) {
      throw notAllowed("plugin", command);
    }
  }
  requireSupportedVersion(cniVersion);
}

function notAllowed(whose: "config" | "plugin", command: Command): CniError {
  return new CniError(
    CniErrorCode.IncompatibleCniVersion,
    `${whose} version does not allow ${command}`,
  );
}
