import { oneLine } from "#lib/one-line.ts";

/** Also for programs that plugins execute, such as iptables. */
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** Of each stream: the links of a host with thousands of containers have less. */
const maxBuffer = 16 * 1024 * 1024;

/** How a program is run. */
export interface RunOptions {
  /** Its stdin. @default empty */
  readonly input?: string;
  /** Its environment besides PATH. @default empty */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether to resolve for any exit status. @default false */
  readonly mayFail?: boolean;
  /** After this time it gets SIGTERM, and SIGKILL 5 s later; 0 = never. @default 30 s */
  readonly timeoutMs?: number;
  /** The same when it is aborted. */
  readonly stopping?: AbortSignal;
}

/**
 * Runs a program; resolves to its exit status and output.
 * @throws Error when it cannot be started, takes too long, prints too much, or fails without `mayFail`
 */
export async function runProgram(
  [file = "", ...args]: readonly string[],
  { input = "", env = {}, mayFail = false, timeoutMs = 30_000, stopping }: RunOptions = {},
) {
  // Most commands of plexusctl run none.
  const { execa } = await import("execa");
  const ended = await execa(file, args, {
    ...{ cwd: "/", env: { PATH: systemPath, ...env }, extendEnv: false },
    ...{ input, reject: false, stripFinalNewline: false, maxBuffer, timeout: timeoutMs },
    ...(stopping && { cancelSignal: stopping }),
    // A shim detaches what its engine has left when that ends.
    cleanup: false,
  });
  const { exitCode, stdout, stderr, shortMessage = "" } = ended;
  const isComplete = !(ended.timedOut || ended.isCanceled || ended.isMaxBuffer);
  if (isComplete && exitCode !== undefined && (mayFail || exitCode === 0))
    return { exitCode, stdout, stderr };
  throw new Error(oneLine([shortMessage, stderr].join("\n").trim()));
}
