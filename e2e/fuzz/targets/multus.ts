import { parseCachedAdd } from "#npwg/multus/cached-add.ts";
import { parseMultusNetworks } from "#npwg/multus/networks-file.ts";
import { keptJson } from "../corpus.ts";
import { jsonTokens, refusing, type Target } from "../target.ts";

const key = { network: "main", containerId: "a".repeat(64), ifName: "eth0" };

/** What Multus and libcni left of a sandbox. */
export const multus: Target = {
  maxLength: 200_000,
  // Two readers read each input.
  maxMs: 2 * 100,
  inputs: keptJson("multus"),
  tokens: [...jsonTokens, '"Bytes":"', "e30=", '"Plugins":[', '"cniArgs":[["a","b"]]'],
  read(input) {
    refusing(() => parseMultusNetworks(input, { source: "x", cniVersion: "" }));
    refusing(() => parseCachedAdd(input, key));
  },
};
