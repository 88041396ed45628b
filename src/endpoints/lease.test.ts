import { expect, onTestFinished, vi } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import type { ApiClient } from "#kube/api/client.ts";
import type { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { kubeTest as test } from "#kube/testing/kube-test.ts";
import { isGet, type SeenRequest } from "#kube/testing/requests.ts";
import { objectOf } from "#lib/json.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { Lease } from "./lease.ts";
import { heldLease } from "./testing/objects.ts";

function start(client: ApiClient, identity: string) {
  const logger = new FakeLogger();
  const lease = new Lease({ client, namespace: "plexus", identity, logger, renewMs: 50 });
  const stopping = new AbortController();
  const running = lease.run(stopping.signal);
  const stop = (): Promise<void> => {
    stopping.abort();
    return running;
  };
  onTestFinished(stop);
  return { lease, logger, stop };
}

const holder = (api: FakeApiServer): unknown =>
  objectOf(api.objects("leases").get("plexus/plexus-endpoints")?.spec).holderIdentity;

/** Stops the clocks of all processes; the result lets them go on by so much. */
function stopClocks(): (ms: number) => void {
  let now = performance.now();
  const spy = vi.spyOn(performance, "now").mockImplementation(() => now);
  onTestFinished(() => spy.mockRestore());
  return (ms) => {
    now += ms;
  };
}

/** Waits until every process has asked for the lease since now. */
async function asked(api: FakeApiServer, processes = 1): Promise<void> {
  const before = api.seen.length;
  const gets = () => api.seen.slice(before).filter(isGet("plexus-endpoints"));
  await eventually(() => expect(gets().length).toBeGreaterThan(processes));
}

test("one process holds it, and gives it to the next when it ends", async ({ api, client }) => {
  api.put("leases", heldLease(""));
  const first = start(client, "one");
  await eventually(() => expect(first.lease.isHeld).toBe(true));
  const second = start(client, "two");
  await asked(api, 2);
  expect([first.lease.isHeld, second.lease.isHeld, holder(api)]).toEqual([true, false, "one"]);
  await first.stop();
  expect(holder(api)).not.toBe("one");
  await eventually(() => expect(second.lease.isHeld).toBe(true));
  expect(holder(api)).toBe("two");
});

test("of two processes that ask at once, one gets it", async ({ api, client }) => {
  api.put("leases", heldLease(""));
  const { promise, resolve } = Promise.withResolvers<void>();
  const isWrite = ({ method }: SeenRequest) => method === "PATCH";
  api.script({ when: isWrite, times: 2, answer: promise });
  const both = [start(client, "one"), start(client, "two")];
  await eventually(() => expect(api.seen.filter(isWrite)).toHaveLength(2));
  resolve();
  const warnings = () => both.flatMap(({ logger }) => logger.at("warn"));
  await eventually(() => expect(warnings()).toEqual(["lease not renewed"]));
  await eventually(() => expect(both.filter(({ lease }) => lease.isHeld)).toHaveLength(1));
});

test("that of a dead process is taken after 15 seconds without a renewal", async ({
  api,
  client,
}) => {
  const pass = stopClocks();
  api.put("leases", heldLease("dead"));
  const { lease } = start(client, "one");
  await asked(api);
  pass(9000);
  api.put("leases", heldLease("dead"));
  await asked(api);
  pass(9000);
  await asked(api);
  expect([lease.isHeld, holder(api)]).toEqual([false, "dead"]);
  pass(9000);
  await eventually(() => expect(lease.isHeld).toBe(true));
  expect(holder(api)).toBe("one");
});

test("a process that cannot renew it stops before others may take it", async ({ api, client }) => {
  const pass = stopClocks();
  api.put("leases", heldLease(""));
  const { lease } = start(client, "one");
  await eventually(() => expect(lease.isHeld).toBe(true));
  await api.fail("500");
  pass(9000);
  expect(lease.isHeld).toBe(true);
  pass(2000);
  expect(lease.isHeld).toBe(false);
  await api.recover();
  await eventually(() => expect(lease.isHeld).toBe(true));
});

test("a process that finds another holder is none any more", async ({ api, client }) => {
  stopClocks();
  api.put("leases", heldLease(""));
  const { lease } = start(client, "one");
  await eventually(() => expect(lease.isHeld).toBe(true));
  api.put("leases", heldLease("two"));
  await eventually(() => expect(lease.isHeld).toBe(false));
  expect(holder(api)).toBe("two");
});

test("it is made when it is not there, and again when somebody deletes it", async ({
  api,
  client,
}) => {
  const { lease, logger } = start(client, "one");
  await eventually(() => expect(lease.isHeld).toBe(true));
  api.delete("leases", "plexus/plexus-endpoints");
  await eventually(() => expect(holder(api)).toBe("one"));
  expect(logger.at("warn")).toEqual([]);
});
