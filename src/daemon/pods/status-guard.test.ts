import { expect, test } from "vitest";
import { hotPlugLab } from "#engine/hotplug/testing/hot-plug-lab.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { StatusGuard } from "./status-guard.ts";

const name = { namespace: "default", name: "web" };

/** A pod attached to `a` and `b`, whose status another component may replace. */
async function makePod() {
  const pod = await hotPlugLab("a,b");
  const { lab } = pod;
  const own = lab.publisher.status("default/web");
  const time = { ms: 0 };
  let reads = 0;
  const guard = new StatusGuard({
    engine: lab.engine,
    nodePods: {
      read: async () => {
        reads++;
        return pod.pod();
      },
    },
    conf: async () => lab.conf,
    pauseMs: 1,
    logger: new FakeLogger(),
    clock: () => time.ms,
  });
  const deliver = () => guard.podChanged("default/web", pod.pod());
  /** Delivers the pod with this status. @returns the status that is published then */
  const write = async (entries: unknown): Promise<unknown> => {
    const networkStatus = typeof entries === "string" ? entries : JSON.stringify(entries);
    pod.state = { networkStatus };
    lab.publisher.published.clear();
    await deliver();
    await new Promise(setImmediate);
    return lab.publisher.status("default/web");
  };
  return { guard, own, time, write, deliver, reads: () => reads };
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

test("a pod that the watch delivers often is read once for events at a time", async () => {
  const { guard, deliver, reads } = await makePod();
  guard.note(name);
  await Promise.all([deliver(), deliver(), deliver(), deliver()]);
  expect(reads()).toBe(1);
  await deliver();
  expect(reads()).toBe(2);
  await guard.podChanged("default/web", undefined);
  expect(reads()).toBe(2);
});
