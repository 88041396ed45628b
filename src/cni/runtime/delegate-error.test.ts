import { expect, test } from "vitest";
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
  return delegateFailure(outcome, { call: context, network: "n" });
}

test.each([
  [
    { code: 7, msg: "bad" },
    { code: 7, message: "bad", details: undefined },
  ],
  [
    { cniVersion: "1.0.0", code: 100, msg: "m", details: "d" },
    { code: 100, message: "m", details: "d" },
  ],
  [
    { Code: 11, Msg: "later" },
    { code: 11, message: "later" },
  ],
  [
    { code: 0, msg: "m" },
    { code: 0, message: "m" },
  ],
  [
    { code: -7, msg: "m" },
    { code: 999, message: "m" },
  ],
  [
    { code: 1.5, msg: "m" },
    { code: 999, message: "m" },
  ],
  [
    { code: "7", msg: "m" },
    { code: 999, message: "m" },
  ],
  [{ msg: "m" }, { code: 999, message: "m" }],
  [{ code: 7 }, { code: 7, message: "netplugin failed with no error message" }],
  [
    { code: 7, msg: "two\nlines\r\n", details: "a\n b" },
    { code: 7, message: "two lines", details: "a b" },
  ],
  [
    "junk",
    { code: 6, message: 'netplugin failed but its diagnostic message is no error object: "junk"' },
  ],
  [
    "[1]",
    { code: 6, message: 'netplugin failed but its diagnostic message is no error object: "[1]"' },
  ],
])(
  "delegateFailure() decodes the error object %j [R-0.1-09] [R-0.4-36] [R-1.0-11] [R-1.0-41] [X-08]",
  (stdout, expected) => {
    const error = failure(exited(1, stdout, "logs"));
    expect(error).toBeInstanceOf(DelegateError);
    expect(error).toMatchObject({
      ...expected,
      message: `plugin type="t" failed (add): ${expected.message}`,
      network: "n",
      ifName: "net1",
      pluginType: "t",
    });
  },
);

test.each([
  [exited(3), "netplugin failed with no error message: exit status 3"],
  [exited(1, "", 'a "b"\nc\n'), 'netplugin failed: "a \\"b\\" c": exit status 1'],
  [ended("signaled", 9), "netplugin failed with no error message: killed by signal 9"],
  [ended("timeout", 0), "netplugin failed with no error message: timed out after 1500 ms"],
  [
    { ...ended("timeout", 0), stderr: "waiting" },
    'netplugin failed: "waiting": timed out after 1500 ms',
  ],
  [
    { ...ended("signaled", 9), stdout: '{"code":7,"msg":"m"}' },
    "netplugin failed with no error message: killed by signal 9",
  ],
  [ended("missing", 2), 'failed to find plugin "t" in path [/a /b]'],
  [ended("refused", 0, "/a is writable by others"), "/a is writable by others"],
  [
    ended("overflow", 0, "printed more than 1 MiB"),
    "netplugin failed with no error message: printed more than 1 MiB",
  ],
  [ended("failed", 26), "netplugin failed with no error message: failed"],
])(
  "delegateFailure() says what is known where the plugin printed nothing: %j [R-0.1-11] [X-05] [X-08]",
  (outcome, message) => {
    expect(failure(outcome)).toMatchObject({
      code: 999,
      message: `plugin type="t" failed (add): ${message}`,
    });
  },
);

test.each([
  ["an error object", { code: 7, msg: " ".repeat(200_000), details: `a${" ".repeat(200_000)}b` }],
  ["no error object", `x${" ".repeat(200_000)}`],
  ["more text than a result may have", `{"code":7,"msg":"${" ".repeat(400_000)}"}`],
])("delegateFailure() is short whatever a plugin prints: %s", (_what, printed) => {
  for (const context of [call, del]) {
    for (const outcome of [exited(1, printed), exited(1, "", JSON.stringify(printed))]) {
      const { message, details } = failure(outcome, context);
      expect(message.length).toBeLessThan(messageMax + 200);
      expect((details ?? "").length).toBeLessThan(messageMax + 200);
    }
  }
});

test.each([
  ["Link not found", "Link absent"],
  ["Not Found: x not\nfound", "absent: x absent"],
  [
    "dial unix /run/cni/dhcp.sock: connect: no such file or directory",
    "dial unix /run/cni/dhcp.sock: connect: file is absent",
  ],
  ["chain X not found in iptables table nat", "chain X absent in iptables table nat"],
])(
  "delegateFailure() of a DEL avoids words on which containerd forgets the pod: %j",
  (msg, reworded) => {
    const error = failure(exited(1, { code: 7, msg, details: msg }), del);
    expect(error.message).toBe(`plugin type="t" failed (delete): ${reworded}`);
    expect(error.details).toBe(reworded);
    expect(failure(exited(1, { code: 7, msg })).message).toContain(msg.replace("\n", " "));
  },
);

test("delegateFailure() of a DEL avoids those words in what it says itself and in stderr", () => {
  for (const outcome of [
    ended("missing", 2),
    ended("failed", 2, "execve: No such file or directory"),
    exited(1, "", "not  found"),
    exited(1, "not found"),
  ]) {
    expect(failure(outcome, del).message).not.toMatch(/not\s+found|no such file or directory/i);
  }
});
