import { join } from "node:path";
import { execa } from "execa";
import {
  differences,
  type HostState,
  type HostStateKind,
  readHostState,
} from "../../e2e/support/host-state.ts";
import { print } from "./print.ts";
import type { Workplace } from "./workplace.ts";

const kinds: readonly HostStateKind[] = [
  "links",
  "links in pods",
  "routes",
  "address leases",
  "iptables rules",
  "attachment records",
  "published statuses",
  "locks",
  "temporary files",
];

/** Lists what attachments may leave on the node. */
export function takeStock({ stateDir, manifests }: Workplace): Promise<HostState> {
  const run = async ([file, ...args]: [string, ...string[]]): Promise<string> =>
    (await execa(file, args)).stdout;
  return readHostState({ run, stateDir, statusDir: join(manifests, ".status") }, { kinds });
}

/** Shows the node before, with pods attached, and now. @throws Error when something is left */
export function compareStock(before: HostState, during: HostState, after: HostState): void {
  print(`${"".padEnd(20)}  before  attached  after DEL`);
  for (const kind of kinds) {
    const counts = [before, during, after].map((state) => state[kind]?.length ?? 0);
    const isSame = differences(before, after, [kind]).length === 0;
    print(
      `${kind.padEnd(20)} ${counts.map((n) => String(n).padStart(8)).join(" ")}   ${isSame ? "as before" : "CHANGED"}`,
    );
  }
  const left = differences(before, after);
  if (left.length > 0) throw new Error(`something is left: ${left.join("; ")}`);
  print("Nothing is left.");
}
