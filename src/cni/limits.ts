import { byteLength } from "#lib/byte-length.ts";
import { CniError } from "./error.ts";

/** Upper bound of one input of a call. */
export interface Limit {
  readonly max: number;
  readonly unit: "bytes" | "plugins" | "networks";
  /** The input, for docs/user/configuration.md. */
  readonly description: string;
}

const kibibyte = 1024;
const mebibyte = 1024 * kibibyte;

/**
 * Limits on all input that pods, definitions, container runtimes and plugins control: far above
 * real use, and far below what delays other calls. Checked before the input is processed; never on
 * DEL, so that everything attached can be detached.
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
    description: "networks of one pod, from the configuration and the annotation",
  },
  annotation: {
    max: 64 * kibibyte,
    unit: "bytes",
    description: "networks annotation of a pod, and its default-network annotation, each",
  },
  cniArgs: { max: 32 * kibibyte, unit: "bytes", description: "`CNI_ARGS` of a call" },
  stdin: {
    // A pod has up to 256 KiB of annotations, which Go's JSON can make six times as long.
    max: 2 * mebibyte,
    unit: "bytes",
    description:
      "configuration that the container runtime passes on stdin, including the pod's annotations",
  },
  result: { max: 256 * kibibyte, unit: "bytes", description: "result of one plugin" },
  record: {
    max: 4 * mebibyte,
    unit: "bytes",
    description: "record and teardown plan of a pod, as planned and with the results",
  },
  keptDefinitions: {
    max: 16 * mebibyte,
    unit: "bytes",
    description:
      "all definitions that plexusd keeps on the node in case [their CRD is deleted](../operations/troubleshooting.md#all-definitions-are-gone)",
  },
} as const satisfies Readonly<Record<string, Limit>>;

/** Checks a value against a limit. @throws CniError 100 naming field, value and limit */
export function checkLimit(limit: Limit, value: number, field: string): void {
  if (value <= limit.max) return;
  throw new CniError(
    "OverLimit",
    `${field} has ${value} ${limit.unit}, more than the limit of ${limit.max}`,
  );
}

/** Checks the length of a text in UTF-8. @throws CniError 100 */
export function checkTextLimit(limit: Limit, text: string, field: string): void {
  // A character has at most three bytes, so that few texts have to be counted.
  if (3 * text.length > limit.max) checkLimit(limit, byteLength(text), field);
}
