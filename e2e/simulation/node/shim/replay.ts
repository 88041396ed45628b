import { CniErrorCode } from "#cni/error.ts";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import { isMadeOnce } from "#engine/del/netns-path.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import {
  defaultPlanName,
  engineOnlyFileName,
  parseStateFileName,
  type RecordKey,
  recordFileName,
  tombstoneFileName,
} from "#lib/files/state-files.ts";
import { decodePlan, type PlanMessage } from "#protocol/plan.ts";
import { world } from "../../world/world.ts";
import { netnsState, type ShimCall } from "./call.ts";
import { makeEmpty } from "./empty-file.ts";
import { execOrder } from "./exec.ts";

/* Models shim/replay.c. */

const [mode, modeOfDel, modeOfUser] = [0o600, 0o1600, 0o700];

/** Why a call is not detached. */
interface Failure {
  readonly code: number;
  readonly message: string;
}

function recordPath(call: ShimCall): string {
  return `${call.stateDir}/${recordFileName(call)}`;
}

function tombstonePath(call: ShimCall): string {
  return `${call.stateDir}/${tombstoneFileName(call)}`;
}

/** Part of `plan_open`: the mode of a file that no other user may have written. */
function ownMode(path: string): number | undefined {
  const found = world().disk.lstat(path);
  if (found?.isFile() !== true || found.uid !== 0 || found.nlink !== 1) return undefined;
  const bits = found.mode & 0o7777;
  return [mode, modeOfDel, modeOfUser].includes(bits) ? bits : undefined;
}

/** `plan_mark` */
export function planMark(call: ShimCall): void {
  const path = recordPath(call);
  if ([undefined, modeOfDel].includes(ownMode(path)) || isElsewhere(call, parsedPlan(path, call)))
    return;
  try {
    world().disk.chmod(path, modeOfDel);
  } catch (error) {
    if (!call.process.isAlive) throw error;
  }
}

/** `is_elsewhere`: whether a plan's sandbox may run in another namespace than the call's. */
function isElsewhere({ netns }: ShimCall, plan: PlanMessage | undefined): boolean {
  const paths = (plan?.calls ?? []).map(({ env }) => env.CNI_NETNS ?? "");
  const [own = ""] = paths;
  if (netns === "" || own === "" || paths.includes(netns)) return false;
  return netnsState(own) === "ok" && world().kernel.processAt(own) === undefined;
}

/** `plan_is_live`: whether a record detaches the sandbox in this namespace, and no DEL has begun. */
export function planIsLive({ stateDir, netns }: ShimCall, sandbox: RecordKey): boolean {
  const path = `${stateDir}/${recordFileName(sandbox)}`;
  const plan = ownMode(path) === modeOfDel ? undefined : planLoad(path, sandbox);
  if (plan === undefined || "code" in plan || netnsState(netns) === "gone") return false;
  return plan.calls.some(({ env }) => env.CNI_NETNS === netns);
}

/** `has_netns`: whether plugins get the call's namespace. */
function hasNetns({ command, netns }: ShimCall): boolean {
  const isOfProcess = command === "DEL" && world().kernel.processAt(netns) !== undefined;
  return netns !== "" && netnsState(netns) === "ok" && !isOfProcess;
}

/** `plan_occupants`: the records whose sandbox may be in a namespace. Other than in the shim, it has one path. */
export function planOccupants({ stateDir, containerId }: ShimCall, netns: string): RecordKey[] {
  return world()
    .disk.list(stateDir)
    .flatMap(([name]) => parseStateFileName(name) ?? [])
    .filter((file) => file.kind === "record")
    .filter((file) => {
      const path = `${stateDir}/${recordFileName(file)}`;
      const found = world().disk.lstat(path);
      const isOver = (found?.mode ?? 0) % 0o10000 === modeOfDel && file.containerId !== containerId;
      const plan = found?.isFile() === true ? parsedPlan(path, file) : undefined;
      return !isOver && plan?.calls.every(({ env }) => env.CNI_NETNS !== netns) !== true;
    });
}

/** `find_other`: the record of another sandbox whose namespace plugins would get. */
function findOther(call: ShimCall, own: PlanMessage | undefined): RecordKey | undefined {
  if (call.command !== "DEL" || !hasNetns(call)) return undefined;
  const isOwn = own?.calls.some(({ env }) => env.CNI_NETNS === call.netns) === true;
  if (isOwn && isMadeOnce(call.netns)) return undefined;
  return planOccupants(call, call.netns).find(
    ({ containerId }) => containerId !== call.containerId,
  );
}

/** `plan_load` @returns undefined when there is no such file */
function planLoad(path: string, owner: RecordKey): PlanMessage | Failure | undefined {
  const { disk } = world();
  if (!disk.exists(path)) return undefined;
  const code = CniErrorCode.DecodingFailure;
  if (ownMode(path) === undefined) return { code, message: "it is not a regular file of root's" };
  const message = "it is truncated, altered, of another attachment, or of another plan version";
  return parsedPlan(path, owner) ?? { code, message };
}

/** `plan_parse` */
function parsedPlan(path: string, owner: RecordKey): PlanMessage | undefined {
  const bytes = world().disk.readFile(path);
  try {
    const { plan } = decodePlan(bytes);
    const isOwn = plan.containerId === owner.containerId && plan.ifName === owner.ifName;
    return isOwn ? plan : undefined;
  } catch {
    return undefined;
  }
}

/** `plan_forget` @throws Error as of node:fs */
function planForget(call: ShimCall): void {
  const { disk } = world();
  const tombstone = tombstonePath(call);
  if (disk.exists(recordPath(call))) disk.rename(recordPath(call), tombstone);
  makeEmpty(tombstone);
}

/** `run_step` @returns why it failed */
async function runStep(
  call: ShimCall,
  step: DelegateCall,
  timeoutMs: number,
): Promise<string | undefined> {
  // Delegates get the namespace of this call.
  const { CNI_NETNS: _, ...env } = step.env;
  const outcome = await execOrder(call, { ...step, env }, timeoutMs);
  if (outcome.outcome === "exited" && outcome.code === 0) return undefined;
  return `${step.type}: ${reasonOf(outcome).slice(0, 300)}`;
}

function reasonOf({ message, stdout, stderr }: DelegateOutcome): string {
  return message || stdout || stderr || "it failed without a message";
}

/** `is_doubtful`: whether a plan could take what another sandbox has. */
function isDoubtful(call: ShimCall, own: PlanMessage | undefined): boolean {
  if (findOther(call, own) !== undefined) return true;
  if (call.command === "DEL" && isElsewhere(call, own)) return true;
  return world().disk.exists(`${call.stateDir}/${engineOnlyFileName(call)}`);
}

/** `run_steps`: a failure skips the rest of its group. */
async function runSteps(
  call: ShimCall,
  { plan, own, attempted }: { plan: PlanMessage; own?: PlanMessage; attempted: number },
): Promise<Failure | undefined> {
  const { schedule } = world();
  const deadline = schedule.nowUs + call.settingMs("PLEXUS_REPLAY_MS", 90_000) * 1000;
  const message = `another sandbox has what this one had (${call.trouble})`;
  const doubt = { code: CniErrorCode.TryAgainLater, message };
  let decidedUs = schedule.nowUs;
  if (isDoubtful(call, own)) return doubt;
  // An ADD has not marked it yet.
  planMark(call);
  if (!hasNetns(call)) call.env = { ...call.env, CNI_NETNS: "" };
  const failures: string[] = [];
  let failed = -1;
  for (const [index, step] of plan.calls.entries()) {
    const leftMs = Math.max(0, Math.ceil((deadline - schedule.nowUs) / 1000));
    const shareMs = Math.floor(leftMs / (plan.calls.length - index));
    if (step.group >= attempted || step.group === failed) continue;
    if (schedule.nowUs - decidedUs > 1_000_000) {
      if (isDoubtful(call, own)) return doubt;
      decidedUs = schedule.nowUs;
    }
    const failure = await runStep(call, step, Math.min(step.timeoutMs, shareMs));
    if (failure === undefined) continue;
    failed = step.group;
    failures.push(failure);
  }
  if (failures.length === 0) return undefined;
  return { code: CniErrorCode.TeardownIncomplete, message: failures.join("; ") };
}

/** `replay` */
async function replay(call: ShimCall, plan: PlanMessage): Promise<Failure | undefined> {
  const isOfOtherBoot = plan.bootId !== world().kernel.bootId;
  const attempted = isOfOtherBoot ? Infinity : plan.attempted;
  const failure = await runSteps(call, { plan, own: plan, attempted });
  if (failure !== undefined) return failure;
  try {
    planForget(call);
    return undefined;
  } catch (error) {
    if (!call.process.isAlive) throw error;
    const message = `everything is detached, but the record cannot be removed: ${String(error)}`;
    return { code: CniErrorCode.IoFailure, message };
  }
}

/** `without_plan` */
async function withoutPlan(call: ShimCall): Promise<Failure | undefined> {
  const { disk } = world();
  if (call.command !== "DEL" || disk.exists(tombstonePath(call))) return undefined;
  const path = `${call.stateDir}/${defaultPlanName}`;
  const doubt = disk.exists(multusPath(call)) ? "Multus has a file of it" : netnsDoubt(call);
  const plan = doubt ? undefined : planLoad(path, { containerId: "", ifName: "" });
  if (doubt !== undefined || plan === undefined || "code" in plan) {
    const reason = doubt ?? "there is no usable default.plan";
    const message = `there is no record of this sandbox, and only plexusd can tell what to detach, as ${reason} (${call.trouble})`;
    return { code: CniErrorCode.TryAgainLater, message };
  }
  return runSteps(call, { plan, attempted: Infinity });
}

/** `plan_replay` @returns undefined if nothing is attached any more */
export async function planReplay(call: ShimCall): Promise<Failure | undefined> {
  const plan = planLoad(recordPath(call), call);
  if (plan === undefined) return withoutPlan(call);
  if ("calls" in plan) return replay(call, plan);
  const message = `cannot use the teardown plan ${recordPath(call)}: ${plan.message}`;
  return { code: plan.code, message };
}

/** `netns_doubt` of shim/netlink.c: why the sandbox may have more than the call's interface. */
function netnsDoubt(call: ShimCall): string | undefined {
  if (netnsState(call.netns) !== "ok") return undefined;
  const isFurther = world()
    .kernel.attached()
    .some(
      ({ kind, netns, ifName }) =>
        kind === "link" && netns === call.netns && ifName !== call.ifName,
    );
  return isFurther ? "its network namespace has further interfaces" : undefined;
}

function multusPath({ containerId }: ShimCall): string {
  return `${defaultPaths.cniStateDir}/multus/${containerId}`;
}

/** `multus_clean` */
export function multusClean(call: ShimCall): void {
  const { disk } = world();
  const path = multusPath(call);
  if (!disk.exists(path)) return;
  if (!disk.exists(recordPath(call)) && !disk.exists(tombstonePath(call))) return;
  const directories = ["multus/results", "results"].map(
    (dir) => `${defaultPaths.cniStateDir}/${dir}`,
  );
  const own = directories
    .filter((dir) => disk.exists(dir))
    .flatMap((dir) => {
      const names = disk.list(dir).map(([name]) => name);
      return names
        .filter((name) => name.includes(`-${call.containerId}-`))
        .map((name) => `${dir}/${name}`)
        .filter((path) => disk.readFile(path).includes(`"containerId":"${call.containerId}"`));
    });
  for (const each of [...own, path]) {
    try {
      disk.unlink(each);
    } catch (error) {
      if (!call.process.isAlive) throw error;
    }
  }
}
