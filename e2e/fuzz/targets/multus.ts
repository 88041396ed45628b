import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { CniError } from "#cni/error.ts";
import { mutated } from "#cni/testing/arbitrary.ts";
import type { Json, JsonObject } from "#lib/json.ts";
import { parseCachedAdd } from "#npwg/multus/cached-add.ts";
import { parseMultusNetworks } from "#npwg/multus/networks-file.ts";
import { repositoryRoot } from "../../support/paths.ts";
import { jsonTokens, refusing, type Target } from "../target.ts";

const dir = join(repositoryRoot, "e2e/fixtures/multus");
const recorded = ["networks", "results/main-eth0"].map((name) =>
  fc.constant({ document: JSON.parse(readFileSync(join(dir, name), "utf8")) as Json }),
);
const documents: fc.Arbitrary<JsonObject> = fc.oneof(...recorded);
const key = { network: "main", containerId: "a".repeat(64), ifName: "eth0" };
const isRefusal = (error: unknown): boolean => error instanceof CniError;

/** What Multus and libcni left of a sandbox. */
export const multus: Target = {
  maxLength: 200_000,
  // Two readers read each input.
  maxMs: 2 * 100,
  inputs: fc
    .oneof(documents, mutated(documents))
    .map(({ document = null }) => JSON.stringify(document)),
  tokens: [...jsonTokens, '"Bytes":"', "e30=", '"Plugins":[', '"cniArgs":[["a","b"]]'],
  read(input) {
    refusing(() => parseMultusNetworks(input, { source: "x", cniVersion: "" }), isRefusal);
    refusing(() => parseCachedAdd(input, key), isRefusal);
  },
};
