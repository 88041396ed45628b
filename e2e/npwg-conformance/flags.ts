import { parseArgs } from "node:util";

/** The command line. */
export interface Flags {
  readonly implementation: string;
  readonly binDir: string;
  readonly only: readonly string[];
  readonly tap?: string | undefined;
  readonly markdown?: string | undefined;
  readonly json?: string | undefined;
  readonly kubeconfig?: string | undefined;
}

/** The text of `--help`. */
export const usage = `npwg-conformance: checks an implementation of the multi-network standard v1.1

usage: npwg-conformance --implementation FILE.json [flags]

  --implementation FILE  describes the implementation (see README.md)
  --tap FILE             write TAP 14 to a file (default: stdout)
  --markdown FILE        write a table
  --json FILE            write the findings for programs
  --only ID              check only this requirement; may be repeated
  --bin-dir DIR          the CNI reference plugins (default /opt/cni/bin)
  --kubeconfig FILE      use this cluster, through kubectl, instead of the suite's own API server
  --help                 print this text

It needs root, iproute2 and openssl. Run it in private network and mount namespaces:
  unshare --net --mount npwg-conformance --implementation FILE.json

exit status: 0 = no requirement failed, 1 = at least one failed, 2 = the suite could not run
`;

const text = { type: "string" } as const;

/** @returns undefined for --help @throws Error naming a flag that is unknown, missing or has no value */
export function parseFlags(argv: readonly string[]): Flags | undefined {
  const options = {
    ...{ implementation: text, tap: text, markdown: text, json: text, kubeconfig: text },
    only: { type: "string", multiple: true, default: [] as string[] },
    "bin-dir": { type: "string", default: "/opt/cni/bin" },
    help: { type: "boolean", default: false },
  } as const;
  const { values } = parseArgs({ args: [...argv], options, strict: true });
  const { help, implementation, "bin-dir": binDir, ...others } = values;
  if (help) return undefined;
  if (implementation === undefined) throw new Error("--implementation is missing");
  return { ...others, implementation, binDir };
}
