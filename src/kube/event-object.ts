const maxMessageBytes = 1024;

/** What an event is about, what happened and in which words. */
export interface Told {
  readonly involved: {
    readonly apiVersion: "v1";
    readonly kind: "Pod" | "Node";
    readonly namespace?: string;
    readonly name: string;
    readonly uid: string;
  };
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

/** An Event of core/v1, for a POST. */
export function eventObject(event: {
  readonly name: string;
  readonly namespace: string;
  readonly nodeName: string;
  readonly count: number;
  readonly firstAt: string;
  readonly told: Told;
}): object {
  const { involved, type, reason, message } = event.told;
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: event.name, namespace: event.namespace },
    involvedObject: involved,
    type,
    reason,
    message,
    source: { component: "plexus", host: event.nodeName },
    reportingComponent: "plexus",
    reportingInstance: event.nodeName,
    firstTimestamp: event.firstAt,
    lastTimestamp: eventTime(),
    count: event.count,
  };
}

/** client-go's form: the object's name and a time that no two events share. */
export function newEventName(objectName: string): string {
  const unique = process.hrtime.bigint() + BigInt(Date.now()) * 1_000_000n;
  return `${objectName.slice(0, 230).replace(/[.-]+$/, "")}.${unique.toString(16)}`;
}

/** The time as events carry it: whole seconds. */
export function eventTime(): string {
  return new Date().toISOString().replace(/\.\d+Z$/, "Z");
}

/** A message that the API server takes: at most 1024 bytes. */
export function cutMessage(message: string): string {
  const bytes = Buffer.from(message);
  if (bytes.length <= maxMessageBytes) return message;
  const kept = bytes
    .subarray(0, maxMessageBytes - 3)
    .toString("utf8")
    .replace(/\uFFFD+$/, "");
  return `${kept}…`;
}
