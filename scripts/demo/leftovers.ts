import { execa } from "execa";
import { print } from "./print.ts";
import { DemoError, type Workplace } from "./workplace.ts";

/** What attachments leave on a node: kind → one line each. */
type Traces = ReadonlyMap<string, readonly string[]>;

/** host-local also keeps a lock and the last address that it gave; those are no leases. */
const commands: readonly (readonly [kind: string, command: string])[] = [
  ["links", `ip -o link | sed 's/^[0-9]*: \\([^:@]*\\).*/\\1/'`],
  [
    "links in the pods",
    `for pod in $(ls /run/netns); do ip -n $pod -o link | sed "s/^[0-9]*: \\([^:@]*\\).*/$pod \\1/"; done`,
  ],
  ["routes", "ip route; ip -6 route | grep -v fe80"],
  ["address leases", "find /var/lib/cni -type f ! -name lock ! -name 'last_reserved_ip*'"],
  ["iptables rules", "(iptables-save; ip6tables-save) 2>/dev/null | grep '^-A'"],
  ["attachment records", `find "$1" -type f ! -name .gc.lock`],
  ["published statuses", `find "$2" -type f`],
];

/** Takes stock of the node. */
export async function takeStock(at: Workplace): Promise<Traces> {
  const traces = new Map<string, readonly string[]>();
  for (const [kind, command] of commands) {
    const { stdout } = await execa(
      "sh",
      ["-c", command, "stock", at.state, `${at.manifests}/.status`],
      { reject: false },
    );
    traces.set(
      kind,
      stdout === ""
        ? []
        : stdout.split("\n").map((line) => line.replace(" linkdown", "").trimEnd()),
    );
  }
  return traces;
}

/** Shows what there was before, with the pods attached, and is now. @throws DemoError when something is left */
export function compareStock(before: Traces, during: Traces, after: Traces): void {
  print(`${"".padEnd(20)}  before  attached  after DEL`);
  const left: string[] = [];
  for (const [kind, lines] of before) {
    const now = after.get(kind) ?? [];
    const counts = [lines.length, (during.get(kind) ?? []).length, now.length];
    const isSame = lines.join("\n") === now.join("\n");
    print(
      `${kind.padEnd(20)} ${counts.map((n) => String(n).padStart(8)).join(" ")}   ${isSame ? "as before" : "CHANGED"}`,
    );
    if (!isSame) left.push(`${kind}: ${now.filter((line) => !lines.includes(line)).join(", ")}`);
  }
  if (left.length > 0) throw new DemoError(`something is left: ${left.join("; ")}`);
  print("Nothing is left.");
}
