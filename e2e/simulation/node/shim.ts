import { CniErrorCode } from "#cni/error.ts";
import { Process } from "../world/schedule.ts";
import { world } from "../world/world.ts";
import { type ShimAnswer, ShimCall, ShimExit } from "./shim/call.ts";
import { lockTake, release } from "./shim/lock.ts";
import { multusClean, planMark, planReplay } from "./shim/replay.ts";
import { type SessionEnd, sessionWithDaemon, sessionWithStandalone } from "./shim/session.ts";

/* Models shim/main.c. */

const defaultWaitMs = 10_000;
const statusWaitMs = 5000;
const pollUs = 50_000;

/** A call of the container runtime. */
export interface RunningShim {
  readonly process: Process;
  /** Its exit status and stdout; undefined when it was killed. */
  readonly ended: Promise<ShimAnswer | undefined>;
}

/** Executes the shim as a child of the present process. */
export function startShim(request: {
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}): RunningShim {
  const { schedule, random } = world();
  const runtime = schedule.current;
  const process = new Process("shim");
  const call = new ShimCall(request, { process, runtime });
  let answer: ShimAnswer | undefined;
  const ended = new Promise<ShimAnswer | undefined>((resolve) => {
    process.onEnd(() => {
      // PR_SET_PDEATHSIG ends the delegate, but not what that has started.
      if (call.delegate !== undefined) schedule.kill(call.delegate.leader);
      schedule.at(random.integer(20, 200), () => resolve(answer), runtime);
    });
  });
  if (call.command !== "DEL") runtime.onEnd(() => callerEnd(call));
  const run = async (): Promise<void> => {
    const own = await main(call);
    if (!process.isAlive) return;
    answer = own;
    schedule.kill(process);
  };
  schedule.at(random.integer(300, 1500), () => void run(), process);
  return { process, ended };
}

/** `caller_end`, `heed_signals`: the runtime was killed, so the call ends with its delegate. */
function callerEnd(call: ShimCall): void {
  const { schedule, random } = world();
  const end = (): void => {
    world().note(() => `${call.name} ends, as its runtime was killed`);
    call.delegate?.kill();
    schedule.kill(call.process);
  };
  schedule.at(random.integer(20, 200), end, call.process);
}

/** `main` and what it does at its exit. */
async function main(call: ShimCall): Promise<ShimAnswer> {
  const answer = await serve(call).catch((error: unknown) => {
    if (error instanceof ShimExit) return error.answer;
    if (call.process.isAlive) throw error;
    return { status: 1, stdout: "" };
  });
  if (call.process.isAlive) release(call);
  return answer;
}

async function serve(call: ShimCall): Promise<ShimAnswer> {
  const isDel = call.command === "DEL" && call.problem === "";
  if (isDel) planMark(call);
  await lockTake(call);
  const end = await findEngine(call);
  const answer = typeof end === "string" ? await endAlone(call, end) : end;
  if (isDel) multusClean(call);
  return answer;
}

/** `find_engine` */
async function findEngine(call: ShimCall): Promise<SessionEnd> {
  const { schedule } = world();
  const waitMs = call.settingMs("PLEXUS_WAIT_MS", defaultWaitMs);
  const isStatus = call.command === "STATUS";
  if (call.problem === "" && (call.attaches || isStatus))
    call.waitMs = isStatus ? Math.min(waitMs, statusWaitMs) : waitMs;
  const deadline = schedule.nowUs + call.waitMs * 1000;
  for (;;) {
    let end = await sessionWithDaemon(call);
    if (end === "unreachable") end = await sessionWithStandalone(call);
    if (end !== "unreachable" || schedule.nowUs >= deadline) return end;
    await awaitDaemon(deadline);
  }
}

/** Waits until a poll can find plexusd, or until the first one after the deadline. */
function awaitDaemon(deadline: number): Promise<void> {
  const { schedule, onDaemonChange, daemon } = world();
  if (daemon !== undefined) return schedule.sleep(pollUs);
  const begunUs = schedule.nowUs;
  const { current } = schedule;
  return new Promise((resolve) => {
    const wake = (): void => {
      onDaemonChange.delete(wake);
      schedule.cancel(timer);
      const polls = Math.max(1, Math.ceil((schedule.nowUs - begunUs) / pollUs));
      schedule.at(begunUs + polls * pollUs - schedule.nowUs, resolve, current);
    };
    const timer = schedule.at(deadline - begunUs, wake);
    onDaemonChange.add(wake);
  });
}

/** `end_alone` @throws ShimExit unless it is a DEL that succeeds */
async function endAlone(call: ShimCall, end: "unreachable" | "lost"): Promise<ShimAnswer> {
  const { TryAgainLater, PluginNotAvailable, InvalidEnvironmentVariables } = CniErrorCode;
  const isUnreachable = end === "unreachable";
  const code = isUnreachable && call.command === "STATUS" ? PluginNotAvailable : TryAgainLater;
  const [isDel, isAdd] = [call.command === "DEL", call.command === "ADD"];
  if (call.problem !== "" && !call.isBegun) call.fail(InvalidEnvironmentVariables, call.problem);
  if (isUnreachable && !isDel)
    call.fail(code, `cannot reach plexusd after ${call.waitMs} ms: ${call.trouble}`);
  if (call.problem !== "" || !(isDel || (isAdd && call.isBegun))) call.fail(code, call.trouble);
  world().note(() => `${call.name}: replays the plan: ${call.trouble}`);
  const undone = await planReplay(call);
  if (isDel && undone !== undefined) call.fail(undone.code, `could not detach: ${undone.message}`);
  if (isAdd && undone !== undefined)
    call.fail(code, `${call.trouble}; could not roll back: ${undone.message}`);
  if (isAdd) call.fail(code, `${call.trouble}; rolled back everything that was attached`);
  return { status: 0, stdout: "" };
}
