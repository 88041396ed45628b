import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import type { Call } from "#engine/call/call.ts";
import { CallHistory } from "./call-history.ts";

const pod = { namespace: "default", name: "web" };
const call = (command: string): Call => ({ command, pod }) as Call;
const succeeded = { status: "succeeded", stdout: "" } as const;
const failed = (error: CniError) => ({ status: "failed", stdout: "", error }) as const;

test("a history has the latest call last", () => {
  const history = new CallHistory();
  for (const [i, command] of ["ADD", "DEL", "ADD"].entries()) {
    history.note(call(command), succeeded, `t${i}`);
  }
  expect(history.of(pod)).toEqual([
    { command: "DEL", at: "t1" },
    { command: "ADD", at: "t2" },
  ]);
});

test("a history has at most 1000 characters of an error", () => {
  const history = new CallHistory();
  history.note(call("ADD"), failed(new CniError("IoFailure", "x".repeat(2000))), "t");
  expect(history.of(pod)).toMatchObject([{ reason: "IoFailure", message: "x".repeat(1000) }]);
});

test("a refused request counts for ten minutes", () => {
  const history = new CallHistory();
  const error = new CniError("UndeclaredRequest", "mac");
  history.note(call("ADD"), failed(error), "2026-01-01T00:00:00.000Z");
  expect(history.refusedRequests("2026-01-01T00:10:00.000Z")).toMatchObject([
    { finding: "UndeclaredRequest", pods: ["default/web"] },
  ]);
  expect(history.refusedRequests("2026-01-01T00:10:00.001Z")).toEqual([]);
});
