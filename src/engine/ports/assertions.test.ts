import { expect, test, vi } from "vitest";
import { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { emptyPorts } from "#engine/ports/empty-ports.ts";
import { EngineLab, sandbox } from "#engine/testing/engine-lab.ts";
import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { type Assertion, assertions, brokenAssertion } from "./assertions.ts";

/** An attached sandbox, for which an assertion is about to be broken. */
async function attached(assertion: Assertion, pod?: string): Promise<EngineLab> {
  const lab = new EngineLab();
  if (pod !== undefined) lab.source.addPod({ name: "web", uid: "uid-9", annotations: {} });
  lab.expectedToBreak = assertion;
  expect(await lab.add(pod === undefined ? {} : { pod })).toMatchObject({ exitCode: 0 });
  return lab;
}

function expectReported(lab: EngineLab, assertion: Assertion, state: object): void {
  expect(lab.measured).toContain(`broken ${assertion}`);
  const lines = lab.logger.lines.filter(({ message }) => message.startsWith(brokenAssertion));
  expect(lines).toMatchObject([
    {
      level: "error",
      fields: { assertion, ...state },
      message: brokenAssertion + assertions[assertion],
    },
  ]);
}

test("a DEL that leaves the record succeeds, and is reported", async () => {
  const lab = await attached("record_after_del");
  lab.records.finish = async () => undefined;
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  expectReported(lab, "record_after_del", { containerId: sandbox.containerId, ifName: "eth0" });
});

test("a status that names what the record lacks is published, and is reported", async () => {
  const lab = await attached("status_of_record", "default/web/uid-9");
  const { record, plan } = (await lab.records.load(sandbox)) ?? {};
  if (record === undefined || plan === undefined) throw new Error("there is no record");
  const pendingStatus = { [networkStatusAnnotation]: '[{"name":"default/other"}]' };
  await lab.records.update({ ...record, pendingStatus }, plan);
  await lab.publisher.compare({ namespace: "default", name: "web" });
  expectReported(lab, "status_of_record", { networks: ["default/other"] });
});

/** Locks that note what they report. */
function locks(): { readonly all: SandboxLocks; readonly broken: Assertion[] } {
  const broken: Assertion[] = [];
  const metrics = { assertionBroken: (assertion: Assertion) => void broken.push(assertion) };
  return { all: new SandboxLocks({ logger: emptyPorts.logger, metrics }), broken };
}

test("operations of one sandbox that overlap are reported", async () => {
  const { all, broken } = locks();
  const free = { [Symbol.dispose]: () => undefined };
  const acquire = vi.spyOn(KeyedMutex.prototype, "acquire").mockResolvedValue(free);
  const held = [await all.acquire("c1"), await all.acquire("c2")];
  expect(broken).toEqual([]);
  await all.acquire("c1");
  acquire.mockRestore();
  expect(broken).toEqual(["operations_overlap"]);
  for (const lock of held) lock[Symbol.dispose]();
});

test("a lock that is released twice is reported", async () => {
  const { all, broken } = locks();
  const acquire = vi
    .spyOn(KeyedMutex.prototype, "tryAcquire")
    .mockReturnValue({ [Symbol.dispose]: () => undefined });
  const twice = [all.tryAcquire("c1"), all.tryAcquire("c1")];
  acquire.mockRestore();
  for (const lock of twice) lock?.[Symbol.dispose]();
  expect(broken).toEqual(["operations_overlap", "released_twice"]);
});
