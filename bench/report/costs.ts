import { markdownTable } from "../../e2e/support/markdown.ts";
import type { Results } from "../results.ts";

const requestCases = new Map([
  ["none", "ptp"],
  ["real", "two networks"],
  ["five", "five networks"],
]);

/** Requests to the API for one pod: reads of pods and of definitions, status writes, and events. */
export function requestTable({ cases }: Results): string {
  const shown = cases.filter(({ id }) => requestCases.has(id));
  const patterns = [/^GET pods/, /^GET network/, /^(PATCH|PUT) pods/, /events$/];
  const names = new Set(
    shown.flatMap(({ rows }) =>
      rows.filter(({ id }) => !["direct", "floor"].includes(id)).map(({ name }) => name),
    ),
  );
  const sums = (requests: Readonly<Record<string, number>>): string =>
    patterns
      .map((pattern) =>
        Object.entries(requests)
          .filter(([what]) => pattern.test(what))
          .reduce((total, [, count]) => total + count, 0),
      )
      .map((sum) => String(Math.round(sum * 10) / 10))
      .join("+");
  return markdownTable(
    ["", ...requestCases.values()],
    [...names].map((name) => [
      name,
      ...[...requestCases.keys()].map((id) => {
        const row = shown.find((each) => each.id === id)?.rows.find((each) => each.name === name);
        return row === undefined ? "" : sums(row.requests);
      }),
    ]),
  );
}

/** Memory of each process. */
export function memoryTable({ memory }: Results): string {
  return markdownTable(
    ["", "peak RSS", "anonymous"],
    memory.map(({ contender, process, when, memory: own }) => [
      `${contender}: ${process}, ${when}`,
      own.peak.toFixed(1),
      own.anonymous.toFixed(1),
    ]),
  );
}

/** fsyncs and bytes of one ADD and one DEL. */
export function diskTable({ disk }: Results): string {
  if (disk.length === 0) return "";
  return markdownTable(
    ["", "fsyncs of ADD", "bytes written", "fsyncs of DEL", "bytes written"],
    disk.map(({ name, add, del }) => [
      name,
      ...[add.fsyncs, add.bytes, del.fsyncs, del.bytes].map(String),
    ]),
  );
}

/** What one ADD and one DEL of Plexus come to. */
export function countTable({ counts }: Results): string {
  if (counts === undefined) return "";
  return markdownTable(
    [
      "",
      "waits of the shim for plexusd",
      "frames from the shim",
      "to the shim",
      "bytes of frames",
      "system calls of the shim",
      "API requests",
      "fsyncs",
      "bytes written",
    ],
    Object.entries(counts).map(([command, { systemCalls, ...of }]) => {
      const calls = Object.values(systemCalls).reduce((sum, count) => sum + count, 0);
      const frames = [of.waits, of.framesOfShim, of.framesOfEngine, of.bytesOfFrames];
      return [
        command,
        ...[...frames, calls, of.apiRequests, of.fsyncs, of.bytesWritten].map(String),
      ];
    }),
  );
}

/** What is installed. */
export function sizeTable({ sizes }: Results): string {
  return markdownTable(
    ["", "MiB"],
    sizes.map(({ what, bytes }) => [what, (bytes / 2 ** 20).toFixed(1)]),
  );
}
