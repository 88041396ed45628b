import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import type { Call } from "#engine/ports/call.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import { CallHistory } from "./call-history.ts";

const pod = { namespace: "default", name: "web" };
const call = (command: string): Call => ({ command, pod }) as Call;
const succeeded = { status: "succeeded", stdout: "" } as const;
const failed = (error: CniError) => ({ status: "failed", stdout: "", error }) as const;

test("a StatefulSet's new pod has no calls of the old one, and nothing of it is open", () => {
  const history = new CallHistory();
  const at = "2026-01-01T00:00:00.000Z";
  const [old, other] = ["u1", "u2"].map((uid) => ({ ...pod, uid }));
  history.note({ ...call("ADD"), pod: old! }, failed(new CniError("IoFailure", "no lease")), at);
  expect(history.of(old!)).toHaveLength(1);
  expect(history.of(other!)).toEqual([]);
  history.note({ ...call("ADD"), pod: other! }, succeeded, at);
  expect(history.of(other!)).toEqual([{ command: "ADD", at }]);
  expect(history.failedAdds(at, ({ uid }) => uid === "u2")).toEqual([]);
  // The mirror of a static pod has another UID than the runtime's calls.
  const mirror = (uid: string) => ({ ...pod, uid: "u3", annotations: { [mirrorAnnotation]: uid } });
  expect([history.of(mirror("u2")).length, history.of(mirror("u4")).length]).toEqual([1, 0]);
});

test("a history has at most 1000 characters of an error", () => {
  const history = new CallHistory();
  history.note(call("ADD"), failed(new CniError("IoFailure", "x".repeat(2000))), "t");
  expect(history.of(pod)).toMatchObject([{ reason: "IoFailure", message: "x".repeat(1000) }]);
});

test("failed ADDs count for ten minutes, by reason and network, while their pods are there", () => {
  const history = new CallHistory();
  const add = (name: string, error: CniError, at: string): void =>
    history.note({ ...call("ADD"), pod: { ...pod, name } }, failed(error), `2026-01-01T00:${at}Z`);
  const missing = (message: string) => new CniError(999, message).of("default/a (net1)");
  add("gone", missing("Link not found"), "09:00.000");
  add("old", missing("Link not found"), "00:00.000");
  add("mac", new CniError("UndeclaredRequest", "mac"), "09:00.000");
  add("web", missing("Link not found"), "05:00.000");
  add("db", missing("Link not found (eth7)"), "06:00.000");
  const failedAt = (at: string) =>
    history.failedAdds(`2026-01-01T00:${at}Z`, ({ name }, time) => `${name} ${time}` !== gone);
  const gone = "gone 2026-01-01T00:09:00.000Z";
  expect(failedAt("10:00.001")).toEqual([
    {
      ...{ reason: "MasterMissing", network: "default/a", message: "Link not found (eth7)" },
      ...{
        pods: ["default/web", "default/db"],
        step: expect.stringMatching(/^set the definition/),
      },
    },
    {
      ...{ reason: "UndeclaredRequest", network: "", message: "mac", pods: ["default/mac"] },
      step: expect.stringContaining("strictness: multus"),
    },
  ]);
  expect(failedAt("10:00.000")[0]?.pods).toEqual(["default/old", "default/web", "default/db"]);
  history.note({ ...call("ADD"), pod: { ...pod, name: "db" } }, succeeded, "2026-01-01T00:07:00Z");
  expect(failedAt("16:00.000")).toEqual([expect.objectContaining({ pods: ["default/mac"] })]);
});
