import { expect, test } from "vitest";
import { SandboxUnavailableError } from "#engine/hotplug/sandbox-hosts.ts";
import { hotPlugLab } from "#engine/hotplug/testing/hot-plug-lab.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { StatusGuard } from "./status-guard.ts";

const name = { namespace: "default", name: "web" };

/** A pod attached to `a` and `b`, whose status another component may replace. */
async function makePod() {
  const pod = await hotPlugLab("a,b");
  const { lab, hosts } = pod;
  const own = lab.publisher.status("default/web");
  const time = { ms: 0 };
  const failures: Error[] = [];
  let reads = 0;
  const guard = new StatusGuard({
    engine: {
      restoreStatus: async (...args) => {
        const failure = failures.shift();
        if (failure !== undefined) throw failure;
        await lab.engine.restoreStatus(...args);
      },
    },
    nodePods: {
      read: async () => {
        reads++;
        return pod.pod();
      },
    },
    hosts,
    conf: async () => lab.conf,
    logger: new FakeLogger(),
    clock: () => time.ms,
  });
  /** Delivers the pod with this status. @returns the status that is published then */
  const write = async (entries: unknown): Promise<unknown> => {
    const networkStatus = typeof entries === "string" ? entries : JSON.stringify(entries);
    pod.state = { networkStatus };
    lab.publisher.published.clear();
    await guard.podChanged("default/web", pod.pod());
    await new Promise(setImmediate);
    return lab.publisher.status("default/web");
  };
  return { guard, own, time, failures, write, reads: () => reads };
}

test("a status that others write over Plexus's is replaced, in the minute after a change [H-6] [H-9.7]", async () => {
  const { guard, own, time, write, reads } = await makePod();
  expect([await write([]), reads()]).toEqual([[], 0]);
  guard.note(name);
  expect(await write(JSON.stringify(own, undefined, 1))).toEqual([]);
  for (const other of [[], own.toReversed(), own.slice(1), "no JSON"])
    expect(await write(other)).toEqual(own);
  time.ms = 60_000;
  expect(await write([])).toEqual([]);
});

test("a sandbox that is in use is tried again, and a pod that has gone is not", async () => {
  const { guard, own, failures, write, reads } = await makePod();
  guard.note(name);
  failures.push(new SandboxUnavailableError("busy", "the sandbox is in use"));
  expect(await write([])).toEqual(own);
  expect(reads()).toBe(2);
  await guard.podChanged("default/web", undefined);
  expect(reads()).toBe(2);
});
