import type { Json, JsonObject } from "#lib/json.ts";

/** A key of Multus, or an argument of its container, in Plexus's terms. */
export interface Translation {
  /** Keys of Plexus's configuration; nested ones are written `primary.conf`. */
  readonly keys?: JsonObject;
  /** Why there is no counterpart or what differs, and what to do. */
  readonly note?: string;
}

/** A line about a key or argument of Multus. */
export interface MigrationNote {
  /** The file, its ConfigMap entry or its DaemonSet. */
  readonly source: string;
  readonly key: string;
  readonly note: string;
}

/** A configuration, or a container's arguments, that Multus uses. */
export interface Effective {
  readonly source: string;
  readonly kind: "arguments" | "cni" | "daemon";
  readonly keys: JsonObject;
  /** The host's path of a path in Multus's container. */
  readonly onHost: (path: string) => string;
}

/** What the translation of a value depends on besides it. */
export interface Surroundings extends Effective {
  /** Whether Multus generates its CNI configuration from the primary CNI's. */
  readonly isGenerated: boolean;
}

/** Translates one value. */
export type Translate = (value: Json, surroundings: Surroundings) => Translation;

/** Copies the value to a key of Plexus. */
export const same =
  (key: string): Translate =>
  (value) => ({ keys: { [key]: value } });

/** Leaves the value out, and says why. */
export const note =
  (text: string): Translate =>
  () => ({ note: text });

/** Leaves the value out without a word: nothing is lost. */
export const silent: Translate = () => ({});

/** A switch, also as text for Go's flags. Anything else counts as on, and is refused or noted. */
export function isOn(value: Json): Json {
  if (typeof value !== "string") return value;
  if (/^(1|t|true)$/i.test(value)) return true;
  return /^(0|f|false)$/i.test(value) ? false : value;
}

/** Leaves out a switch that is off without a word. */
export const ifOn =
  (translate: Translate): Translate =>
  (value, surroundings) =>
    isOn(value) === false ? {} : translate(value, surroundings);

/** Takes `""` as absent. */
export const unlessEmpty =
  (translate: Translate): Translate =>
  (value, surroundings) =>
    value === "" ? {} : translate(value, surroundings);

/** A path in Multus's container becomes the host's. */
export const onHost = (key: string): Translate =>
  unlessEmpty((value, { onHost: toHost }) => ({
    keys: { [key]: typeof value === "string" ? toHost(value) : value },
  }));
