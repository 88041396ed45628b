import { Daemon } from "./daemon.ts";
import { distPath, nodeBinary } from "./paths.ts";
import { childrenOf, commandOf, environmentOf, type Process, processes } from "./processes.ts";

/** What keeps plexusd small, as deploy/base/daemonset.yaml has it: flags of Node, and a variable of glibc. */
export const smallMemory = {
  flags: ["--max-semi-space-size=1", "--optimize-for-size"],
  env: { MALLOC_ARENA_MAX: "2" },
};

/** Where a plexusd without a cluster keeps what it works with. */
export interface PlexusdPaths {
  readonly socket: string;
  readonly stateDir: string;
  /** Manifests of pods and networks. Not given when the flags name another source. */
  readonly manifests?: string;
}

/** How plexusd is started. */
export interface PlexusdOptions extends PlexusdPaths {
  /** The file that its log is appended to. */
  readonly logFile: string;
  /** The bundle. @default the built one */
  readonly program?: string;
  /** Flags of Node itself. */
  readonly nodeFlags?: readonly string[];
  /** More flags, which come last and so prevail. */
  readonly flags?: readonly string[];
  /** Makes the command run elsewhere, e.g. in the namespaces of a lab. */
  readonly enter?: (...command: string[]) => [string, ...string[]];
  /** Its whole environment. @default this process's */
  readonly env?: Readonly<Record<string, string>>;
}

/** The flags of a plexusd that serves shims from manifests, without HTTP. */
export function plexusdFlags({ socket, stateDir, manifests }: PlexusdPaths): string[] {
  const source = manifests === undefined ? [] : ["--manifests", manifests];
  return [...source, "--socket", socket, "--state-dir", stateDir, "--http", "false"];
}

/** The variables that point a shim to such a plexusd, and keep it from starting plexus-standalone. */
export function shimEnvironment({ socket, stateDir }: PlexusdPaths): Record<string, string> {
  return { PLEXUS_SOCKET: socket, PLEXUS_STATE_DIR: stateDir, PLEXUS_STANDALONE: "" };
}

/** What plexus-standalone reads of a node without plexusd. */
export interface StandalonePaths extends PlexusdPaths {
  /** The configuration file. @default none */
  readonly config?: string | undefined;
}

/** The variables with which a shim starts the compiled plexus-standalone for its call. */
export function standaloneEnvironment(paths: StandalonePaths): Record<string, string> {
  const { manifests, config } = paths;
  return {
    ...shimEnvironment(paths),
    PLEXUS_STANDALONE: distPath("plexus-standalone"),
    ...(manifests === undefined ? {} : { PLEXUS_MANIFESTS: manifests }),
    ...(config === undefined ? {} : { PLEXUS_CONFIG: config }),
    ...lingering(),
  };
}

/**
 * The plexus-standalone that a shim has started, or else one that has stayed beside plexusd's socket;
 * undefined while there is none.
 */
export async function standaloneOf(
  shim: number,
  daemonSocket: string,
): Promise<number | undefined> {
  const children = await childrenOf(shim);
  const own = children.find((pid) => commandOf(pid)?.includes("plexus-standalone"));
  return own ?? standalonesOf(daemonSocket).at(-1);
}

/** The plexus-standalone processes that stay beside plexusd's socket, the latest last. */
export function standalonesOf(daemonSocket: string): number[] {
  const isBeside = ({ pid, command }: Process): boolean =>
    command.includes("plexus-standalone") &&
    environmentOf(pid).includes(`PLEXUS_SOCKET=${daemonSocket}`);
  return processes()
    .filter(isBeside)
    .map(({ pid }) => pid)
    .toSorted((a, b) => a - b);
}

/**
 * LINGER_MS, for how long plexus-standalone stays after a call.
 * @default each call starts a process, as for users
 */
function lingering(): { readonly PLEXUS_LINGER_MS?: string } {
  const { LINGER_MS } = process.env;
  return LINGER_MS === undefined ? {} : { PLEXUS_LINGER_MS: LINGER_MS };
}

/** Starts the built plexusd and waits until it serves. @throws Error with the end of its log when it does not */
export async function startPlexusd(options: PlexusdOptions): Promise<Daemon> {
  const {
    logFile,
    program = distPath("plexusd.js"),
    nodeFlags = [],
    flags = [],
    env,
    enter = (file: string, ...args: string[]) => [file, ...args],
  } = options;
  const node = [nodeBinary(), ...nodeFlags, program] as [string, ...string[]];
  const command = enter(...node, ...plexusdFlags(options), ...flags) as [string, ...string[]];
  const daemon = Daemon.start({ name: "plexusd", command, logFile, ...(env && { env }) });
  await daemon.waitUntil("plexusd serves", () => daemon.log.includes("plexusd serves"));
  return daemon;
}
