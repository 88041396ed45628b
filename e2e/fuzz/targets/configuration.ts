import fc from "fast-check";
import { json } from "#cni/testing/arbitrary.ts";
import { ConfigError, parseConfig } from "#daemon/config/parse.ts";
import { ManifestError, parseManifestFile } from "#manifests/documents.ts";
import { keptInputs } from "../corpus.ts";
import { refusing, type Target } from "../target.ts";

/**
 * What is written in YAML: plexusd's configuration file, and manifests. These are the node's own files and
 * read when they change. The YAML library takes about a tenth of a millisecond for each error in
 * a file and for each level of nesting, hence the other bounds.
 */
export const configuration: Target = {
  maxLength: 4000,
  maxMs: 1000,
  inputs: fc.oneof(
    fc.constantFrom(...keptInputs("configuration")),
    fc.dictionary(fc.string(), json).map((object) => JSON.stringify(object)),
  ),
  tokens: [
    ..."{}[]\":,'\\ \n\t\0é#&*!|>?-",
    "- ",
    ": ",
    "\n  ",
    "&a ",
    "*a",
    "<<: *a",
    "---\n",
    "%YAML 1.2\n",
  ],
  read(input) {
    refusing(
      () => parseConfig(input, "config.yaml"),
      (thrown) => thrown instanceof ConfigError && checkProblems(thrown),
    );
    refusing(
      () => parseManifestFile(input, "a.yaml"),
      (thrown) => thrown instanceof ManifestError,
    );
  },
};

function checkProblems({ problems }: ConfigError): boolean {
  return problems.length > 0 && problems.every(({ line, problem }) => line > 0 && problem !== "");
}
