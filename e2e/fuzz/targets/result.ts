import fc from "fast-check";
import type { CniError } from "#cni/error.ts";
import { formatResult, printResult } from "#cni/result/format.ts";
import { parseResult } from "#cni/result/parse.ts";
import { delegateFailure } from "#cni/runtime/delegate-error.ts";
import { readAddOutput } from "#cni/runtime/delegate-output.ts";
import { mutated, validResult } from "#cni/testing/arbitrary.ts";
import { exited } from "#cni/testing/fake-delegates.ts";
import { supportedVersions } from "#cni/versions.ts";
import { jsonTokens, must, refusing, type Target } from "../target.ts";

const call = (command: string) => ({
  type: "t",
  searchPath: ["/opt/cni/bin"],
  env: { CNI_COMMAND: command, CNI_IFNAME: "net1" },
  stdin: "",
  timeoutMs: 1000,
});

/** What a delegate prints: a result, an error, or anything on stderr. */
export const result: Target = {
  maxLength: 270_000,
  // An output that is no result is read six times.
  maxMs: 6 * 100,
  inputs: fc.oneof(validResult, mutated(validResult)).map((value) => JSON.stringify(value)),
  tokens: [
    ...jsonTokens,
    " ",
    "\r\n",
    "not ",
    "not found",
    "10.0.0.1/24",
    "::",
    "1.",
    '"ips":[{},',
  ],
  read(input) {
    for (const version of supportedVersions) {
      const raw = refusing(() => readAddOutput(input, version, call("ADD")));
      if (raw === undefined) break;
      const read = parseResult(raw, { fallbackVersion: version });
      refusing(() => printResult(formatResult(read, "1.1.0")));
    }
    for (const outcome of [exited(1, input), exited(1, "", input)]) {
      for (const command of ["ADD", "DEL"]) checkMessage(delegateFailure(outcome, call(command)));
    }
  },
};

function checkMessage({ message, details = "" }: CniError): void {
  must(message.length < 10_000 && details.length < 10_000, "an error that is too long");
  must(!/[\r\n]/.test(message + details), "an error of several lines");
}
