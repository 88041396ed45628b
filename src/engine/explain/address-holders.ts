import { leftoverReason, nodeNow } from "#engine/leftovers/leftover.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { sandboxName } from "#engine/record/record.ts";
import { addressesOf } from "./attached-network.ts";
import type { Explanation, FindLeases } from "./explanation.ts";

const shownMax = 8;

/** Who has the addresses of the network that an advice concerns: a sentence, or "" if it is not known. */
export async function addressHolders(
  deps: Pick<EngineDeps, "records" | "bootId" | "clock" | "now" | "isNothingAt">,
  { networks, advice: { subject = "" } }: Explanation,
  leases: FindLeases = async () => [],
): Promise<string> {
  const { network, cniName } =
    networks.find((each) => `${subject} `.startsWith(`${each.network} `)) ?? {};
  const all = (await deps.records.list()).records;
  const now = nodeNow(deps, all);
  const recorded = all.flatMap((record) => {
    const kind = leftoverReason(record, now) === undefined ? "" : "leftover ";
    const own = record.attachments.filter(({ displayName }) => displayName === network);
    return own.flatMap(addressesOf).map((ip) => `${kind}${sandboxName(record)} (${ip})`);
  });
  const known = new Set(all.map(({ containerId }) => containerId));
  const found = cniName === undefined ? [] : await leases(cniName).catch(() => []);
  const unrecorded = found.filter(({ containerId }) => !known.has(containerId));
  const others = unrecorded.map(
    ({ address, containerId: id }) => `unrecorded container ${id.slice(0, 12)} (${address})`,
  );
  const holders = [...others, ...recorded];
  if (holders.length === 0) return "";
  const more = holders.length > shownMax ? `, and ${holders.length - shownMax} more` : "";
  const held = ` On this node, its addresses are held by ${holders.slice(0, shownMax).join(", ")}${more}.`;
  const [first] = unrecorded;
  if (first === undefined) return held;
  // Containers of Docker and of other CNIs have no record here.
  return `${held} If no runtime lists an unrecorded container and no network namespace has its address, remove its file, such as ${first.path}.`;
}
