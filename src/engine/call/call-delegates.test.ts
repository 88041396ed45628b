import { expect, test } from "vitest";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import type { EngineMetrics } from "#engine/ports/engine-deps.ts";
import { CallDelegates } from "./call-delegates.ts";
import { Trace } from "./trace.ts";

const call = { type: "ptp", env: { CNI_COMMAND: "ADD" } } as unknown as DelegateCall;

test.each<[Partial<DelegateOutcome>, ok: boolean | undefined]>([
  [{ outcome: "exited", code: 0 }, true],
  [{ outcome: "exited", code: 1 }, false],
  [{ outcome: "signaled", code: 0 }, false],
  [{ outcome: "timeout", code: 0 }, false],
  [{ outcome: "missing", code: 0 }, undefined],
])("a delegate that ended with %j is measured once, in milliseconds: %s", async (ended, ok) => {
  const outcome = { stdout: "", stderr: "", elapsedUs: 2500, ...ended } as DelegateOutcome;
  const delegates = new CallDelegates({ exec: async () => outcome } as never, new Trace(() => 0));
  expect(await delegates.runner("n")(call)).toBe(outcome);
  const measured: unknown[] = [];
  const metrics = { delegateEnded: (each: unknown) => void measured.push(each) };
  for (let i = 0; i < 2; i++) delegates.recordMetrics(metrics as unknown as EngineMetrics);
  const known = { command: "ADD", type: "ptp", network: "n", milliseconds: 2.5 };
  expect(measured).toEqual(ok === undefined ? [] : [{ ...known, ok }]);
});
