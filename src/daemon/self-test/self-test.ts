import { rm } from "node:fs/promises";
import { join } from "node:path";
import { type Logger, noLogger } from "#engine/ports/logger.ts";
import { deadline, untilAborted } from "#lib/concurrency/deadline.ts";
import type { RequestMessage } from "#protocol/messages.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { CallServer } from "#serving/call-server.ts";
import { testEngine, testNetwork, testPod } from "./test-engine.ts";
import { callByTestShim } from "./test-shim.ts";

/** More rounds do not make the first calls faster. */
const maxRounds = 20;
/** On a busy machine there are fewer rounds, because pods wait for plexusd. */
const budgetMs = 300;
const timeoutMs = 2000;

/**
 * Attaches, checks and detaches a pod that does not exist, so that V8 has compiled the code before
 * the first call of the container runtime. Everything but the pod, its networks and its shim is as
 * in a real call, but calls are not published, counted or logged. Never rejects: a failure is logged.
 * @param options.dir on a file system in memory; removed afterwards
 */
export async function selfTest(options: { dir: string; logger: Logger }): Promise<void> {
  const { dir, logger } = options;
  const startedAt = performance.now();
  try {
    using limit = deadline(timeoutMs);
    const rounds = await untilAborted(runIn(dir, startedAt), limit.signal);
    logger.debug({ rounds, ms: Math.round(performance.now() - startedAt) }, "the self-test passed");
  } catch (error) {
    logger.warn({ err: error, dir }, "the self-test failed; the first calls can be slow or fail");
  } finally {
    await rm(dir, { recursive: true, force: true }).catch(() => undefined);
  }
}

async function runIn(dir: string, startedAt: number): Promise<number> {
  await rm(dir, { recursive: true, force: true });
  const records = await FileRecordStore.open(dir);
  const socketPath = join(dir, "sock");
  const engine = testEngine(records);
  const calls = await CallServer.listen({ socketPath, engine, logger: noLogger });
  try {
    let round = 0;
    do {
      for (const command of ["ADD", "CHECK", "DEL"]) {
        const { exitCode, stdout } = await callByTestShim(socketPath, requestOf(command));
        if (exitCode !== 0) throw new Error(`${command} failed: ${stdout}`);
      }
    } while (++round < maxRounds && performance.now() - startedAt < budgetMs);
    return round;
  } finally {
    await calls.drain();
    await records.flush();
  }
}

function requestOf(command: string): RequestMessage {
  const { namespace, name, uid } = testPod;
  const conf = { cniVersion: "1.0.0", name: "plexus", type: "plexus" };
  return {
    stdin: JSON.stringify({ ...conf, delegates: [testNetwork("default")] }),
    env: {
      CNI_COMMAND: command,
      CNI_CONTAINERID: "self-test",
      CNI_NETNS: `/run/netns/${uid}`,
      CNI_IFNAME: "eth0",
      CNI_PATH: "/opt/cni/bin",
      CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${name};K8S_POD_UID=${uid}`,
      PLEXUS_NETNS: "ok",
      PLEXUS_LINKS: "lo/",
    },
  };
}
