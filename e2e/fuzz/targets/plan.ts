import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { decodePlan, encodePlan } from "#protocol/plan.ts";
import { must, refusing, type Target } from "../target.ts";
import { isProtocolError, protocolTokens } from "./frame.ts";

const word = fc.string({ maxLength: 12 });

const plans = fc
  .record({
    containerId: word,
    ifName: word,
    bootId: word,
    attempted: fc.nat(3),
    calls: fc.array(
      fc.record({
        group: fc.nat(3),
        type: word,
        searchPath: fc.array(fc.constantFrom("/opt/cni/bin", "/a"), { maxLength: 3 }),
        timeoutMs: fc.nat(60_000),
        stdin: word,
        env: fc.constant({ CNI_COMMAND: "DEL", CNI_ARGS: "A=b" }),
      }),
      { maxLength: 4 },
    ),
  })
  .map((plan) => encodePlan(plan, { schema: "2", text: "{}" }).toString("latin1"));

/** The file of a record with its plan, and updates after it, which may be cut short or altered. */
export const plan: Target = {
  maxLength: 200_000,
  inputs: fc.array(plans, { minLength: 1, maxLength: 3 }).map((all) => all.join("")),
  tokens: [...protocolTokens(), "\0\0\0\x013\0", "\0\0\0\x012\0", "\0\0\0\x011\0"],
  read(input) {
    const bytes = Buffer.from(input, "latin1");
    const decoded = refusing(() => decodePlan(bytes), isProtocolError);
    if (decoded === undefined) return;
    const written = encodePlan(decoded.plan, decoded.record ?? { schema: "", text: "" });
    const again = decodePlan(Buffer.concat([written, written]));
    must(
      isDeepStrictEqual(again.plan, decoded.plan),
      "a plan that is not the same when it is read again",
    );
  },
};
