import type { ContenderId } from "./contenders.ts";
import type { SystemCalls } from "./counts/system-calls.ts";
import type { Memory } from "./measure/accounting.ts";
import type { Summary } from "./measure/statistics.ts";

/** What one contender took in one case. */
export interface Row {
  readonly id: ContenderId;
  readonly name: string;
  readonly add: Summary;
  readonly del: Summary;
  /** With several pods at once: from the first start to the last end. Undefined when calls failed in every round. */
  readonly burst?: Readonly<Record<"add" | "del", number | undefined>>;
  /** CPU time of an ADD and a DEL, over all processes; undefined where it cannot be counted. */
  readonly cpuMs: number | undefined;
  /** Requests to the API of an ADD and a DEL: `PATCH pods` → how many, on average. */
  readonly requests: Readonly<Record<string, number>>;
  /** Calls that failed; their times are not in the summaries. */
  readonly failures: number;
  /** What the first of them said. */
  readonly firstFailure?: string;
}

/** One case of the comparison. */
export interface CaseResult {
  readonly id: string;
  readonly title: string;
  readonly rows: readonly Row[];
}

/** What one ADD and DEL of two plugins that write nothing themselves ask of the disk. */
export interface DiskUse {
  readonly name: string;
  readonly add: Disk;
  readonly del: Disk;
}

export interface Disk {
  readonly fsyncs: number;
  readonly bytes: number;
}

/** What a call comes to that does not depend on how fast the machine is. */
export interface CallCounts {
  readonly waits: number;
  readonly framesOfShim: number;
  readonly framesOfEngine: number;
  readonly bytesOfFrames: number;
  readonly apiRequests: number;
  readonly fsyncs: number;
  readonly bytesWritten: number;
  /** Of the shim, by name. */
  readonly systemCalls: SystemCalls;
}

/** The counts of both commands. */
export type Counts = Record<"ADD" | "DEL", CallCounts>;

/** Memory of one process of a contender. */
export interface ProcessMemory {
  readonly contender: string;
  readonly process: string;
  /** `after its start`, `after the benchmark`, or `at its end` for one that a call starts. */
  readonly when: string;
  readonly memory: Omit<Memory, "resident"> & { readonly resident?: number };
}

/** One phase of a call. */
export interface Phase {
  readonly name: string;
  readonly median: number;
}

/** One call of Plexus. Times in milliseconds. */
export interface CallTrace {
  /** From the fork of the shim to its main(), from which the spans are counted. */
  readonly shimStart: number;
  readonly spans: readonly { readonly name: string; readonly at: number; readonly took: number }[];
  /** From the fork of the shim to its end. */
  readonly whole: number;
}

/** The calls after the start of a contender's daemon, the first one first: the median of each over all samples. */
export interface FirstCalls {
  readonly id: ContenderId;
  readonly name: string;
  readonly add: readonly number[];
  readonly del: readonly number[];
}

/** A function in a call tree, with what it calls. */
export interface Frame {
  readonly name: string;
  /** The path of its module from the repository's root, `node:net`, or empty for V8 itself. */
  readonly module: string;
  /** With what it calls. */
  readonly ms: number;
  readonly children: readonly Frame[];
}

/** How something grows with something else. */
export interface Growth {
  readonly id: string;
  readonly title: string;
  /** What is counted along the bottom. */
  readonly along: string;
  readonly unit: string;
  readonly lines: readonly {
    readonly name: string;
    readonly points: readonly (readonly [x: number, y: number])[];
  }[];
}

/** All that one run found: the JSON file, from which the page and the charts are made. */
export interface Results {
  readonly date: string;
  readonly quick: boolean;
  readonly rounds: number;
  /** How long the run took. */
  readonly seconds: number;
  readonly machine: string;
  /** What else the machine did: its load average of one minute when the run began. */
  readonly loadBefore: number;
  readonly stateFileSystem: string;
  /** Versions of what was compared. */
  readonly versions: Readonly<Record<string, string>>;
  readonly cases: readonly CaseResult[];
  readonly start: readonly FirstCalls[];
  readonly phases: Readonly<Record<"ADD" | "DEL", readonly Phase[]>>;
  /** A typical call of each command. */
  readonly traces: Readonly<Partial<Record<"ADD" | "DEL", CallTrace>>>;
  /** plexusd's main thread for an ADD and a DEL. */
  readonly profile?: Frame;
  /** The processes of plexus-standalone for an ADD and a DEL. */
  readonly standaloneProfile?: Frame;
  /** Empty where strace is missing. */
  readonly disk: readonly DiskUse[];
  readonly memory: readonly ProcessMemory[];
  /** Sizes in bytes of what is installed on a node, and of the image. */
  readonly sizes: readonly { readonly what: string; readonly bytes: number }[];
  readonly growth: readonly Growth[];
  /** Absent where strace is missing. */
  readonly counts?: Counts;
}
