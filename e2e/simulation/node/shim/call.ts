import { CniErrorCode } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import type { Reason } from "#lib/reasons.ts";
import { monotonicMs } from "../../world/ground.ts";
import type { Process } from "../../world/schedule.ts";
import { world } from "../../world/world.ts";
import type { InheritedLock, LockedFile, LockHolder, ProcessGroup } from "../locks.ts";

/* Models shim/call.c and shim/rules.c. */

/** What the shim prints on stdout, and its exit status. */
export interface ShimAnswer {
  readonly status: number;
  readonly stdout: string;
}

/** The commands that each call may order. */
const rules: Readonly<Record<string, readonly string[]>> = {
  ADD: ["ADD", "CHECK", "DEL", "VERSION"],
  CHECK: ["ADD", "CHECK", "DEL", "VERSION"],
  DEL: ["DEL", "VERSION"],
  GC: ["DEL", "GC", "VERSION"],
  STATUS: ["DEL", "STATUS", "VERSION"],
  AGENT: ["DEL", "VERSION"],
};

const ownNetns = "/proc/self/ns/net";

/** What `fail` throws where the real shim exits. */
export class ShimExit extends Error {
  readonly answer: ShimAnswer;

  constructor(answer: ShimAnswer) {
    super(answer.stdout);
    this.answer = answer;
  }
}

/** One call and its state (`struct call`). */
export class ShimCall implements LockHolder {
  readonly process: Process;
  readonly runtime: Process;
  readonly command: string;
  readonly containerId: string;
  readonly ifName: string;
  readonly netns: string;
  readonly stdin: string;
  readonly startedMs = monotonicMs();
  /** `run_steps` replaces it. */
  env: Readonly<Record<string, string>>;
  /** What is wrong with the variables that name the sandbox, or "". */
  problem = "";
  /** Why no engine has answered the call. */
  trouble = "";
  /** The last engine did not answer in time. */
  isSilent = false;
  waitMs = 0;
  /** Of a GC: the containers on which operations ran when it began. */
  busy: readonly string[] = [];
  /** Whether a plugin was run; in an ADD, one for its ADD: the record is this ADD's only then. */
  isBegun = false;
  /** The state directory, while a GC excludes others. */
  excluded: LockedFile | undefined;
  /** The sandbox's lock file. */
  lock: LockedFile | undefined;
  inherited: InheritedLock | undefined;
  /** Whether an order has come. */
  isBusy = false;
  /** Of an agent's session: what its first order does. */
  onOrder: (() => void) | undefined;
  /** Of an agent's session: the sandbox that it has locked, for which its orders are. */
  entered: ShimCall | undefined;
  /** The delegate that runs now. */
  delegate: (ProcessGroup & { readonly leader: Process }) | undefined;

  constructor(
    { env, stdin }: { readonly env: Readonly<Record<string, string>>; readonly stdin: string },
    { process, runtime }: LockHolder,
  ) {
    this.env = env;
    this.stdin = stdin;
    this.process = process;
    this.runtime = runtime;
    this.command = env.CNI_COMMAND ?? "";
    this.containerId = env.CNI_CONTAINERID ?? "";
    this.ifName = env.CNI_IFNAME ?? "";
    this.netns = env.CNI_NETNS ?? "";
    this.#check();
  }

  get stateDir(): string {
    return this.env.PLEXUS_STATE_DIR ?? defaultPaths.stateDir;
  }

  get lockFile(): string {
    return `${this.stateDir}/${this.containerId}.lock`;
  }

  /** For messages. */
  get name(): string {
    return `shim ${this.command} ${this.containerId} ${this.ifName}`.trimEnd();
  }

  /** Whether its orders may concern only its own container. */
  get attaches(): boolean {
    return this.command === "ADD" || this.command === "CHECK";
  }

  settingMs(name: string, fallback: number): number {
    const value = this.env[name];
    return value === undefined || !/^\d+$/.test(value) ? fallback : Number(value);
  }

  /** `call_check` */
  #check(): void {
    if (this.command === "GC" || this.command === "STATUS" || this.command === "AGENT") return;
    if (!this.attaches && this.command !== "DEL") {
      this.problem = `unknown CNI_COMMAND: ${this.command}`;
    } else if (this.containerId === "" || this.ifName === "") {
      this.problem = "required env variables [CNI_CONTAINERID,CNI_IFNAME] missing";
    } else if (!/^[0-9A-Za-z][0-9A-Za-z_.-]{0,199}$/.test(this.containerId)) {
      this.problem = "invalid characters in containerID, or more than 200 characters";
    } else if (!/^(?!\.{1,2}$)[^/: \t\n\v\f\r]{1,15}$/.test(this.ifName)) {
      this.problem = "interface name is invalid";
    }
  }

  /** Ends the call with a CNI error. @throws ShimExit always */
  fail(code: number, message: string): never {
    const reason = reasons[code] ?? (this.trouble === "" ? "TryAgainLater" : "DaemonUnavailable");
    const version = /"cniVersion"[: \t\r\n]*"([0-9.]{1,31})"/.exec(this.stdin)?.[1] ?? "1.1.0";
    const msg = message
      .replaceAll(/not found/gi, (words) => words.replace(" ", "-"))
      .replaceAll(/no such file or/gi, (words) => words.replace(" ", "-"));
    const error = { cniVersion: version, code, msg, details: `reason=${reason}` };
    throw new ShimExit({ status: 1, stdout: `${JSON.stringify(error)}\n` });
  }

  /** `order_allowed`: why the call may not carry this EXEC order; undefined when it may. */
  refusal(order: DelegateCall): string | undefined {
    const { CNI_COMMAND, CNI_CONTAINERID, CNI_NETNS = "" } = { ...this.env, ...order.env };
    const isVersion = CNI_COMMAND === "VERSION";
    const isOwn = (CNI_CONTAINERID ?? "") === this.containerId;
    const foreign = Object.keys(order.env).findIndex((name) => !name.startsWith("CNI_"));
    if (foreign >= 0) return `environment entry ${foreign + 1} is not CNI_NAME=VALUE`;
    if (rules[this.command]?.includes(CNI_COMMAND ?? "") !== true)
      return `CNI_COMMAND=${CNI_COMMAND} cannot be part of ${this.command}`;
    if (!isOwn && !isVersion && (this.attaches || CNI_COMMAND !== "DEL"))
      return `CNI_CONTAINERID=${CNI_CONTAINERID} is not the container of this call`;
    const isAllowed =
      CNI_NETNS === "" || isVersion
        ? CNI_NETNS === "" || CNI_NETNS === "dummy"
        : this.#isNetnsAllowed(CNI_NETNS, isOwn || this.attaches);
    return isAllowed ? undefined : `CNI_NETNS=${CNI_NETNS} is not allowed`;
  }

  /** `is_netns_allowed` for a path. Other than in the shim, every namespace is mounted. */
  #isNetnsAllowed(path: string, isOwnContainer: boolean): boolean {
    if (!isOwnContainer) return netnsState(path) === "ok";
    const override = /^(1|true)$/i.test(this.env.CNI_NETNS_OVERRIDE ?? "");
    return path === this.netns && (override || path !== ownNetns);
  }
}

const reasons: Readonly<Record<number, Reason>> = {
  [CniErrorCode.InvalidEnvironmentVariables]: "InvalidEnvironmentVariables",
  [CniErrorCode.IoFailure]: "IoFailure",
  [CniErrorCode.DecodingFailure]: "DecodingFailure",
  [CniErrorCode.TeardownIncomplete]: "TeardownIncomplete",
  [CniErrorCode.Internal]: "Internal",
};

/** `netns_state`, but for a namespace that only cannot be opened. */
export function netnsState(path: string): "ok" | "own" | "gone" {
  if (path === ownNetns) return "own";
  return world().kernel.hasNamespace(path) ? "ok" : "gone";
}
