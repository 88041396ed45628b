import { expect, test } from "vitest";
import { limits } from "#cni/limits.ts";
import { ended, exited } from "#cni/testing/fake-delegates.ts";
import { messageMax } from "#lib/one-line.ts";
import type { DelegateCall, DelegateOutcome } from "./delegate.ts";
import { DelegateError, delegateFailure } from "./delegate-error.ts";

const call: DelegateCall = {
  type: "t",
  searchPath: ["/a", "/b"],
  env: { CNI_COMMAND: "ADD", CNI_IFNAME: "net1" },
  stdin: "",
  timeoutMs: 1500,
};

const del = { ...call, env: { ...call.env, CNI_COMMAND: "DEL" } };

function failure(outcome: DelegateOutcome, context: DelegateCall = call): DelegateError {
  return delegateFailure(outcome, context);
}

const noMessage = "netplugin failed with no error message";
const noObject = "netplugin failed but its diagnostic message is no error object: ";

/** The text of an error object of this length. */
function errorText(length: number): string {
  return JSON.stringify({ code: 7, msg: "m" }).padEnd(length);
}

test.each<[unknown, number, string, string?]>([
  [{ code: 7, msg: "bad" }, 7, "bad"],
  [{ cniVersion: "1.0.0", code: 100, msg: "m", details: "d" }, 100, "m", "d"],
  [{ Code: 11, Msg: "later" }, 11, "later"],
  [{ code: 0, msg: "m" }, 0, "m"],
  [{ code: -7, msg: "m" }, 999, "m"],
  [{ code: 1.5, msg: "m" }, 999, "m"],
  [{ code: "7", msg: "m" }, 999, "m"],
  [{ msg: "m" }, 999, "m"],
  [{ code: 7 }, 7, noMessage],
  [{ code: 7, msg: "two\nlines\r\n", details: "a\n b" }, 7, "two lines", "a b"],
  ["junk", 6, `${noObject}"junk"`],
  ['{"cniVersion":"1.0.0"}\n{"code":7,"msg":"m","details":"d {"}\n', 7, "m", "d {"],
  ['time=now level=info msg="{}"\n{\n  "code": 7,\n  "msg": "m"\n}', 7, "m"],
  ['{"code":7}{"ips":[{"msg":1}]}', 6, `${noObject}"{\\"code\\":7}{\\"ips\\":[{\\"msg\\":1}]}"`],
  ["[1]", 6, `${noObject}"[1]"`],
  ['{"code":5,"msg":"earlier"}\n{"code":7,"msg":"m"}', 7, "m"],
  ['"msg":"m"}', 6, `${noObject}"\\"msg\\":\\"m\\"}"`],
])("delegateFailure() decodes %j [R-0.1-09] [R-0.4-36] [R-1.0-11] [R-1.0-41] [X-08]", (...row) => {
  const [stdout, code, message, details] = row;
  const error = failure(exited(1, stdout, "logs"));
  expect(error).toBeInstanceOf(DelegateError);
  expect(error).toMatchObject({
    ...{ code, details, message: `plugin type="t" failed (add): ${message}` },
    pluginType: "t",
  });
});

test.each([
  [exited(3), `${noMessage}: exit status 3`],
  [exited(3, "\n", "why"), 'netplugin failed: "why": exit status 3'],
  [exited(1, "", 'a "b"\nc\n'), 'netplugin failed: "a \\"b\\" c": exit status 1'],
  [ended("signaled", 9), `${noMessage}: killed by signal 9`],
  [ended("timeout", 0), `${noMessage}: timed out after 1500 ms`],
  [{ ...ended("timeout", 0), stderr: "x" }, 'netplugin failed: "x": timed out after 1500 ms'],
  [{ ...ended("signaled", 9), stdout: '{"msg":"m"}' }, `${noMessage}: killed by signal 9`],
  [ended("overflow", 0, "printed more than 1 MiB"), `${noMessage}: printed more than 1 MiB`],
  [ended("failed", 26), `${noMessage}: failed`],
])(
  "delegateFailure() reports status and stderr of a plugin without a usable error: %j [R-0.1-11] [X-05] [X-08]",
  (...row) => {
    const [outcome, message] = row;
    const expected = { code: 999, message: `plugin type="t" failed (add): ${message}` };
    expect(failure(outcome)).toMatchObject(expected);
  },
);

test.each([
  [ended("missing", 2), 'failed to find plugin "t" in path [/a /b]'],
  [
    ended("refused", 0, "/a is writable by others"),
    'plugin "t" may not be executed: /a is writable by others',
  ],
])("delegateFailure() does not say that a plugin failed that was not executed: %j", (...row) => {
  const [outcome, message] = row;
  expect(failure(outcome)).toMatchObject({ code: 999, message });
});

test.each([
  [28, "StateUnwritable"],
  [122, "StateUnwritable"],
  [30, "StateUnwritable"],
  [5, "IoFailure"],
])("delegateFailure() of errno %d of the disk has code 5 and the reason %s", (errno, reason) => {
  const message =
    "cannot note the plugin's process in /var/lib/plexus/c1.lock: No space left on device";
  expect(failure(ended("failed", errno, message))).toMatchObject({ code: 5, reason, message });
});

test.each([2, 8, 13, 80])("delegateFailure() of errno %d says why no plugin ran", (errno) => {
  const message = "cannot execute /opt/cni/bin/t: its ELF loader does not exist";
  const expected = { code: 999, reason: "PluginNotExecutable", message };
  expect(failure(ended("failed", errno, message))).toMatchObject(expected);
});

test.each([
  ["an error object", { code: 7, msg: " ".repeat(200_000), details: `a${" ".repeat(200_000)}b` }],
  ["no error object", `x${" ".repeat(200_000)}`],
  ["more text than a result may have", `{"code":7,"msg":"${" ".repeat(400_000)}"}`],
])("delegateFailure() limits the length of message and details: %s", (_what, printed) => {
  for (const context of [call, del]) {
    for (const outcome of [exited(1, printed), exited(1, "", JSON.stringify(printed))]) {
      const { message, details } = failure(outcome, context);
      expect(message.length).toBeLessThan(messageMax + 200);
      expect((details ?? "").length).toBeLessThan(messageMax + 200);
    }
  }
});

test.each([
  ["the longest result", errorText(limits.result.max), 7],
  ["more", errorText(limits.result.max + 1), 6],
  ["log lines and the longest result", `log\n${errorText(limits.result.max)}`, 7],
  ["log lines and more", `log\n${errorText(limits.result.max + 1)}`, 6],
  ["log lines and 20 braces", `log {"code":7,"msg":"${"{".repeat(19)}"}`, 7],
  ["log lines and more braces", `log {"code":7,"msg":"${"{".repeat(20)}"}`, 6],
])("delegateFailure() limits what it decodes: %s", (_what, stdout, code) => {
  expect(failure(exited(1, stdout)).code).toBe(code);
});
