/** An error that people meet, by its words or its code, and what to do about it. */
export interface KnownError {
  readonly finding: string;
  readonly code?: number;
  /** One of these is in the message, whatever the case; … stands for anything between two parts. */
  readonly words?: readonly string[];
  /** What to do, as the second half of a sentence that begins with the error. */
  readonly step: string;
}
