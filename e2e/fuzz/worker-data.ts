/** What a worker is started with. */
export interface WorkerData {
  readonly name: string;
  readonly seed: number;
  /** As of Date.now(). */
  readonly endsAt: number;
  /** The length of the input that is being read, as an Int32, and its UTF-8 bytes. */
  readonly current: SharedArrayBuffer;
}

/** A report of a worker: its progress, or the defect that ends it. */
export type WorkerReport =
  | { readonly kind: "progress"; readonly runs: number; readonly found: number }
  | {
      readonly kind: "defect";
      readonly input: string;
      readonly reason: string;
      readonly seed: number;
    };
