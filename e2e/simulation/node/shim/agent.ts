import { Process } from "../../world/schedule.ts";
import { world } from "../../world/world.ts";
import { ShimCall } from "./call.ts";
import { release } from "./lock.ts";
import { sessionWithDaemon } from "./session.ts";

/* Models shim/agent.c. */

const [pauseMinMs, pauseMaxMs] = [100, 10_000];
const [startMinUs, startMaxUs] = [300, 1500];
/** For the agent to notice that a session got an order. */
const noticeUs = 100;

/** Starts `plexus agent`, with or without `--attach`, which serves plexusd until it is killed. */
export function startAgent(mayAttach: boolean): Process {
  const agent = new Process("agent");
  if (mayAttach) keepSession(agent);
  else startSession(agent, {});
  return agent;
}

/** `keep_session`: one session waits for an order. */
function keepSession(agent: Process): void {
  const { schedule } = world();
  const session = new Process("agent session");
  agent.onEnd(() => schedule.kill(session));
  const call = startSession(session, { PLEXUS_AGENT: "attach" });
  const next = (): void => keepSession(agent);
  call.onOrder = () => schedule.at(noticeUs, next, agent);
  session.onEnd(() => {
    if (!call.isBusy) schedule.at(pauseMaxMs * 1000, next, agent);
  });
}

function startSession(process: Process, env: Readonly<Record<string, string>>): ShimCall {
  const { schedule, random } = world();
  const all = { CNI_COMMAND: "AGENT", CNI_PATH: "/opt/cni/bin", PLEXUS_SILENCE_MS: "0", ...env };
  const call = new ShimCall({ env: all, stdin: "" }, { process, runtime: schedule.outside });
  process.onEnd(() => {
    const { delegate } = call.entered?.delegate === undefined ? call : call.entered;
    if (delegate !== undefined) schedule.kill(delegate.leader);
  });
  schedule.at(random.integer(startMinUs, startMaxUs), () => void serve(call), process);
  return call;
}

/** `serve`: a session of many ends after its task. */
async function serve(call: ShimCall): Promise<void> {
  const isOneOfMany = call.env.PLEXUS_AGENT === "attach";
  for (let pauseMs = pauseMinMs; ; pauseMs = Math.min(pauseMs * 2, pauseMaxMs)) {
    call.isBegun = false;
    await sessionWithDaemon(call);
    if (call.entered !== undefined) release(call.entered);
    if (isOneOfMany && call.isBusy) return world().schedule.kill(call.process);
    if (call.isBegun) pauseMs = pauseMinMs;
    await world().schedule.sleep(pauseMs * 1000);
  }
}
