import { readBody } from "#lib/net/read-body.ts";
import { oneLine } from "#lib/one-line.ts";

/** An event as kubectl prints it. Its last time depends on the API that it was created with. */
interface ListedEvent {
  readonly reason?: string;
  readonly message?: string;
  readonly series?: { readonly lastObservedTime: string } | null;
  readonly lastTimestamp?: string | null;
  readonly eventTime?: string | null;
  readonly metadata: { readonly creationTimestamp: string };
}

const shownMax = 5;
/** plexusctl shares the memory of plexusd's container. */
const inputMax = 4 * 1024 * 1024;

/**
 * A table of a pod's last events, from what `kubectl get events -o json` prints. No lines where it printed nothing, as
 * the user may not list events, or more than 4 MiB.
 * @throws SyntaxError when it is not JSON
 */
export async function lastEvents(input?: AsyncIterable<Buffer>): Promise<string[]> {
  const text = input && (await readBody(input, inputMax));
  if (!text) return [];
  const { items } = JSON.parse(text) as { readonly items: readonly ListedEvent[] };
  if (items.length === 0) return [];
  const rows = items
    .toSorted((a, b) => timeOf(a).localeCompare(timeOf(b)))
    .slice(-shownMax)
    .map((event) => lineOf(timeOf(event), event.reason ?? "", oneLine(event.message ?? "")));
  return ["", lineOf("LAST EVENT", "REASON", "MESSAGE"), ...rows];
}

function timeOf({ series, lastTimestamp, eventTime, metadata }: ListedEvent): string {
  const time = series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? metadata.creationTimestamp;
  return `${time.slice(0, 19)}Z`;
}

function lineOf(time: string, reason: string, message: string): string {
  return `${time.padEnd(20)} ${reason.padEnd(23)} ${message}`;
}
