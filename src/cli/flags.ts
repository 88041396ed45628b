import { defaultPaths } from "#lib/files/default-paths.ts";

type FlagValue = string | boolean;

/** One flag of a command: how to parse it, and its line of the help. */
export interface Flag<T extends FlagValue = FlagValue> {
  /** What a command gets when the flag is not given. */
  readonly fallback: T;
  /** The placeholder of the value in the help; none for a boolean. */
  readonly value?: string;
  readonly help: string;
  readonly short?: string;
  readonly choices?: readonly string[];
}

/** A flag with a value; not given, it is `fallback`. */
export function textFlag(value: string, help: string, fallback = ""): Flag<string> {
  return { value, help, fallback };
}

/** A flag without a value. */
export function switchFlag(help: string): Flag<boolean> {
  return { help, fallback: false };
}

/** A flag with one of a few values. @param options.fallback by default the first */
export function choiceFlag<const T extends string>(
  choices: readonly [T, ...T[]],
  options: Pick<Flag, "help" | "short"> & { readonly fallback?: NoInfer<T> },
): Flag<T> {
  return { value: choices.join("|"), choices, fallback: choices[0], ...options };
}

/** The value of a flag that {@link textFlag} declares. @throws Error naming the flag */
export function wholeSeconds(flag: string, value: string): number {
  const seconds = Number(value);
  if (Number.isInteger(seconds) && seconds > 0) return seconds;
  throw new Error(`${flag} must be a whole number of seconds`);
}

export const commonFlags = {
  socket: textFlag("PATH", "the socket of plexusd", defaultPaths.socket),
  stateDir: textFlag("DIR", "the attachment records", defaultPaths.stateDir),
  binDir: textFlag("DIR", "the node's plugin directory", defaultPaths.cniBinDir),
  pluginDirsFile: textFlag(
    "FILE",
    "the list of further plugin directories",
    defaultPaths.pluginDirsFile,
  ),
} as const;
