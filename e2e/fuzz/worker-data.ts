/** What a worker is started with. */
export interface WorkerData {
  readonly name: string;
  readonly seed: number;
  /** As of Date.now(). */
  readonly endsAt: number;
  /** The length of the input that is being read, as an Int32, and its UTF-8 bytes. */
  readonly current: SharedArrayBuffer;
}

/** What a worker reports: that it goes on, or the defect with which it ends. */
export type WorkerReport =
  | { readonly kind: "progress"; readonly runs: number; readonly found: number }
  | {
      readonly kind: "defect";
      readonly input: string;
      readonly reason: string;
      readonly seed: number;
    };
