import { printable } from "#lib/one-line.ts";

const maxMessageBytes = 1024;

/** What happened, and to which object. */
export interface EventContent {
  readonly involvedObject: {
    readonly apiVersion: "v1";
    readonly kind: "Pod" | "Node" | "Service";
    readonly namespace?: string;
    readonly name: string;
    readonly uid: string;
  };
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

interface EventOrigin {
  readonly name: string;
  readonly namespace: string;
  readonly nodeName: string | undefined;
  readonly count: number;
  readonly firstTimestamp: string;
}

/** The Event of core/v1 to POST. */
export function eventObject(content: EventContent, origin: EventOrigin): object {
  const { name, namespace, nodeName, count, firstTimestamp } = origin;
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name, namespace },
    ...content,
    source: { component: "plexus", host: nodeName },
    reportingComponent: "plexus",
    reportingInstance: nodeName,
    firstTimestamp,
    lastTimestamp: eventTime(),
    count,
  };
}

/** A unique name in client-go's form: the object's name and a time. */
export function newEventName(objectName: string): string {
  const unique = process.hrtime.bigint() + BigInt(Date.now()) * 1_000_000n;
  return `${objectName.slice(0, 230).replace(/[.-]+$/, "")}.${unique.toString(16)}`;
}

/** The current time in the form of events: whole seconds. */
export function eventTime(): string {
  return new Date().toISOString().replace(/\.\d+Z$/, "Z");
}

/** A message as a terminal can show it, shortened to the 1024 bytes that the API server accepts. */
export function cutMessage(message: string): string {
  const shown = printable(message);
  const bytes = Buffer.from(shown);
  if (bytes.length <= maxMessageBytes) return shown;
  const kept = bytes
    .subarray(0, maxMessageBytes - 3)
    .toString("utf8")
    .replace(/\uFFFD+$/, "");
  return `${kept}…`;
}
