import { expect, onTestFinished, vi } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import type { ApiClient } from "#kube/api/client.ts";
import type { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { kubeTest as test } from "#kube/testing/kube-test.ts";
import { objectOf } from "#lib/json.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { Lease } from "./lease.ts";

function start(client: ApiClient, identity: string) {
  const lease = new Lease({ client, namespace: "plexus", identity, logger: new FakeLogger() });
  const stopping = new AbortController();
  const running = lease.run(stopping.signal);
  const stop = (): Promise<void> => {
    stopping.abort();
    return running;
  };
  onTestFinished(stop);
  return { lease, stop };
}

const holder = (api: FakeApiServer): unknown =>
  objectOf(api.objects("leases").get("plexus/plexus-endpoints")?.spec).holderIdentity;

/** Lets the clocks of all processes go on by so much. */
function later(): (ms: number) => void {
  const now = performance.now.bind(performance);
  let passed = 0;
  const spy = vi.spyOn(performance, "now").mockImplementation(() => now() + passed);
  onTestFinished(() => spy.mockRestore());
  return (ms) => {
    passed += ms;
  };
}

const hold = (api: FakeApiServer, holderIdentity: string): void =>
  api.put("leases", {
    metadata: { namespace: "plexus", name: "plexus-endpoints" },
    spec: { holderIdentity },
  });

test("one process holds it, and gives it to the next when it ends", async ({ api, client }) => {
  const first = start(client, "one");
  await eventually(() => expect(first.lease.isHeld).toBe(true));
  const second = start(client, "two");
  await new Promise((resolve) => setTimeout(resolve, 2500));
  expect([first.lease.isHeld, second.lease.isHeld, holder(api)]).toEqual([true, false, "one"]);
  await first.stop();
  expect(holder(api)).not.toBe("one");
  await eventually(() => expect(second.lease.isHeld).toBe(true));
  expect(holder(api)).toBe("two");
});

test("that of a dead process is taken after 15 seconds without a renewal", async ({
  api,
  client,
}) => {
  const pass = later();
  hold(api, "dead");
  const { lease } = start(client, "one");
  const rounds = async (): Promise<void> => {
    const asked = api.seen.length;
    await eventually(() => expect(api.seen.length).toBeGreaterThan(asked + 1));
  };
  await rounds();
  pass(9000);
  hold(api, "dead");
  await rounds();
  pass(9000);
  await rounds();
  expect([lease.isHeld, holder(api)]).toEqual([false, "dead"]);
  pass(9000);
  await eventually(() => expect(lease.isHeld).toBe(true));
  expect(holder(api)).toBe("one");
});

test("a process that cannot renew it stops before others may take it", async ({ api, client }) => {
  const pass = later();
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
  const { lease } = start(client, "one");
  await eventually(() => expect(lease.isHeld).toBe(true));
  hold(api, "two");
  await eventually(() => expect(lease.isHeld).toBe(false));
  expect(holder(api)).toBe("two");
});
