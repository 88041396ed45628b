import { expect, test } from "vitest";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { parseFlags, usage } from "./flags.ts";

const { socket, stateDir, kubeletDir } = defaultPaths;

test.each([
  [[], { source: { kind: "api" } }],
  [["--kubeconfig", "k"], { source: { kind: "api", kubeconfig: "k" } }],
  [
    ["--manifests", "m", "--http=false"],
    { source: { kind: "manifests", dir: "m" }, http: "false" },
  ],
  [["--cni-conf-dir=/d", "--node", "n"], { source: { kind: "api" }, cniConfDir: "/d", node: "n" }],
  [["--kubelet-dir=/k"], { source: { kind: "api" }, kubeletDir: "/k" }],
  [["--thin"], { source: { kind: "api" }, thin: true }],
])("parseFlags(%j) runs plexusd with these flags", (argv, flags) => {
  expect(parseFlags(argv)).toStrictEqual({ socket, stateDir, kubeletDir, ...flags });
});

test.each(["help", "version"])("parseFlags() accepts --%s beside other flags", (kind) => {
  expect(parseFlags(["--node", "n", `--${kind}`])).toBe(kind);
});

test.each([
  [["--manifests", "m", "--kubeconfig", "k"], /--manifests and --kubeconfig exclude each other/],
  [["--frobnicate"], /--frobnicate/],
  [["--node"], /--node/],
  [["extra"], /extra/],
])("parseFlags(%j) names the invalid argument", (argv, message) => {
  expect(() => parseFlags(argv)).toThrow(message);
});

test("the usage names the default paths", () => {
  expect(usage).toContain(`(default ${socket})`);
  expect(usage).toContain(`(default ${stateDir})`);
});
