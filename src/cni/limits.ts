import { CniError, CniErrorCode } from "./error.ts";

/** A bound on what one call may bring with it. */
export interface Limit {
  readonly max: number;
  readonly unit: "bytes" | "plugins" | "networks";
  /** What is bounded, for docs/user/configuration.md. */
  readonly description: string;
}

const kibibyte = 1024;
const mebibyte = 1024 * kibibyte;

/**
 * Bounds on everything that a pod, a definition, a container runtime or a delegate can make long, each
 * far above what is in use anywhere and far below what would hold up another pod's call. They are
 * checked before work is done with what they bound, and never on DEL: whatever was attached can
 * be detached.
 */
export const limits = {
  conf: {
    max: 128 * kibibyte,
    unit: "bytes",
    description: "configuration of one network: `spec.config`, a file, or an item of `delegates`",
  },
  plugins: { max: 32, unit: "plugins", description: "plugins of one network" },
  networks: {
    max: 32,
    unit: "networks",
    description: "networks of one pod, those of the configuration and those of its annotation",
  },
  annotation: {
    max: 64 * kibibyte,
    unit: "bytes",
    description:
      "networks annotation of a pod, and its default-network annotation, with everything in them",
  },
  cniArgs: { max: 32 * kibibyte, unit: "bytes", description: "`CNI_ARGS` of a call" },
  stdin: {
    // A pod has up to 256 KiB of annotations, of which Go's JSON can make six times as much.
    max: 2 * mebibyte,
    unit: "bytes",
    description:
      "configuration that the container runtime hands over on stdin, with the pod's annotations",
  },
  result: { max: 256 * kibibyte, unit: "bytes", description: "result of one delegate" },
  record: {
    max: 4 * mebibyte,
    unit: "bytes",
    description:
      "record and teardown plan of a pod, as planned before anything is attached and with the results",
  },
} as const satisfies Readonly<Record<string, Limit>>;

/** An input that is longer than its {@link Limit}. @internal */
export class LimitError extends CniError {
  override readonly name = "LimitError";
}

/**
 * Refuses what is beyond a limit; `field` names it in the message.
 * @throws LimitError (code 100) naming field, value and limit
 */
export function checkLimit(limit: Limit, value: number, field: string): void {
  if (value <= limit.max) return;
  throw new LimitError(
    CniErrorCode.InvalidRequest,
    `${field} has ${value} ${limit.unit}, more than the limit of ${limit.max}`,
  );
}

/** The same for a text, by its length in UTF-8. @throws LimitError (code 100) */
export function checkTextLimit(limit: Limit, text: string, field: string): void {
  checkLimit(limit, Buffer.byteLength(text), field);
}
