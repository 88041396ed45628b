import fc from "fast-check";
import { json } from "#cni/testing/arbitrary.ts";
import { ConfigError, parseConfig } from "#daemon/config/parse.ts";
import { must, refusing, type Target } from "../target.ts";

const lines = fc.constantFrom(
  "clusterNetwork: main",
  "delegates: [{type: ptp, name: a}]",
  "defaultNetworks:\n  - a\n  - b",
  "systemNamespaces: [kube-system]",
  "globalNamespaces: a,b",
  "namespaceIsolation: true",
  "delegateTimeoutMs: 1000",
  "http: 127.0.0.1:19500",
  "logLevel: info",
  "primary:\n  settleMs: 3000",
  "capabilities: {mac: true}",
  "invalidAnnotation: fail",
);

/** plexusd's configuration file. */
export const configuration: Target = {
  maxLength: 20_000,
  inputs: fc.oneof(
    fc.array(lines, { maxLength: 8 }).map((items) => items.join("\n")),
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
    const error = refusing(
      () => parseConfig(input, "config.yaml") && undefined,
      (thrown) => thrown instanceof ConfigError && checkProblems(thrown),
    );
    must(error === undefined, "a configuration is no error");
  },
};

function checkProblems({ problems }: ConfigError): boolean {
  return problems.length > 0 && problems.every(({ line, problem }) => line > 0 && problem !== "");
}
