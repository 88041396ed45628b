import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { type CallOutcome, readCall } from "#engine/ports/call.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { logCall } from "./call-log.ts";

const error = new CniError(7, "bad");

test.each<[CallOutcome, code: object]>([
  [{ status: "succeeded", stdout: "" }, {}],
  [{ status: "failed", stdout: "", error }, { code: 7 }],
])("logCall() measures %j to the microsecond, and logs tenths of milliseconds", (outcome, code) => {
  const logger = new FakeLogger();
  const ended: unknown[] = [];
  const metrics = { requestEnded: (...args: unknown[]) => void ended.push(args) };
  const delegates = { networks: ["n"], recordMetrics: (to: unknown) => void ended.push(to) };
  const call = readCall({ env: { CNI_COMMAND: "DEL" }, stdin: "" });
  const notes = { notRolledBack: [], hadNothing: false };
  const finished = { call, outcome, milliseconds: 12.345, delegates, notes };
  logCall(finished as never, { logger, metrics } as unknown as EngineDeps);
  expect(ended).toEqual([metrics, ["DEL", { milliseconds: 12.345, ...code }]]);
  expect(logger.lines).toMatchObject([{ fields: { durationMs: 12.3, networks: ["n"], ...code } }]);
});
