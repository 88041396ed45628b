import { Process } from "../../world/schedule.ts";
import { world } from "../../world/world.ts";
import { ShimCall } from "./call.ts";
import { sessionWithDaemon } from "./session.ts";

/* Models shim/agent.c. */

const [pauseMinMs, pauseMaxMs] = [100, 10_000];

/** Starts `plexus agent`, which serves plexusd until it is killed. */
export function startAgent(): Process {
  const { schedule, random } = world();
  const process = new Process("agent");
  const env = { CNI_COMMAND: "AGENT", CNI_PATH: "/opt/cni/bin", PLEXUS_SILENCE_MS: "0" };
  const call = new ShimCall({ env, stdin: "" }, { process, runtime: schedule.outside });
  process.onEnd(() => {
    if (call.delegate !== undefined) schedule.kill(call.delegate.leader);
  });
  schedule.at(random.integer(300, 1500), () => void serve(call), process);
  return process;
}

/** `serve` */
async function serve(call: ShimCall): Promise<void> {
  for (let pauseMs = pauseMinMs; ; pauseMs = Math.min(pauseMs * 2, pauseMaxMs)) {
    call.orders = 0;
    await sessionWithDaemon(call);
    if (call.orders > 0) pauseMs = pauseMinMs;
    await world().schedule.sleep(pauseMs * 1000);
  }
}
