import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { isObject, type JsonObject } from "./json.ts";

/** All that the suite knows of an implementation. Strings may have placeholders. */
export interface Implementation {
  readonly name: string;
  readonly version: string;
  /** Path of the CNI executable; a relative one is relative to the implementation file. */
  readonly plugin: string;
  /** What the container runtime passes to the executable on stdin. */
  readonly configuration: JsonObject;
  /** Added to the executable's environment. */
  readonly environment: Readonly<Record<string, string>>;
  /** Files to write before anything starts: the content, as text or JSON, by path. */
  readonly files: JsonObject;
  readonly daemon?: DaemonCommand;
  /** Keys of `configuration` with which pods may only use definitions of their namespace. */
  readonly isolation?: JsonObject;
  /** Keys of `configuration` with which the default network is ready when `{{readinessFile}}` exists. */
  readonly readiness?: JsonObject;
}

/** How the implementation's daemon is started. */
export interface DaemonCommand {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** The daemon is ready when this file exists, or when its output has this text. */
  readonly ready: { readonly file: string } | { readonly output: string };
}

/** @throws Error naming the file and every key with a wrong value */
export async function readImplementation(path: string): Promise<Implementation> {
  const text = await readFile(path, "utf8");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${path}: not JSON: ${(error as Error).message}`);
  }
  const problems = problemsOf("", value, implementationKeys);
  const daemon = isObject(value) ? value.daemon : undefined;
  if (isObject(daemon)) problems.push(...daemonProblems(daemon));
  if (problems.length > 0) throw new Error(`${path}: ${problems.join("; ")}`);
  return withDefaults(value as JsonObject, dirname(path));
}

function withDefaults(value: JsonObject, directory: string): Implementation {
  const { plugin, daemon, environment = {}, files = {}, ...others } = value;
  const command = isObject(daemon) ? { daemon: { environment: {}, ...daemon } } : {};
  const path = resolve(directory, String(plugin));
  return { ...others, ...command, environment, files, plugin: path } as unknown as Implementation;
}

type Kind = "text" | "texts" | "object" | "environment";
type Keys = Readonly<Record<string, Kind | `${Kind}?`>>;

const implementationKeys: Keys = {
  name: "text",
  version: "text",
  plugin: "text",
  configuration: "object",
  environment: "environment?",
  files: "object?",
  daemon: "object?",
  isolation: "object?",
  readiness: "object?",
};

function daemonProblems(daemon: JsonObject): string[] {
  const keys: Keys = { command: "texts", environment: "environment?", ready: "object" };
  const problems = problemsOf("daemon.", daemon, keys);
  if (!isObject(daemon.ready)) return problems;
  const names = Object.keys(daemon.ready);
  const isOne = names.length === 1 && /^(?:file|output)$/.test(names[0] ?? "");
  if (!isOne) return [...problems, `daemon.ready: expected "file" or "output", got ${names}`];
  return [...problems, ...problemsOf("daemon.ready.", daemon.ready, { [`${names}`]: "text" })];
}

const kinds: Readonly<Record<Kind, { expected: string; test: (value: unknown) => boolean }>> = {
  text: { expected: "a non-empty string", test: isText },
  texts: {
    expected: "a list of strings with at least one",
    test: (value) => Array.isArray(value) && value.length > 0 && value.every(isText),
  },
  object: { expected: "an object", test: isObject },
  environment: {
    expected: "an object of strings",
    test: (value) => isObject(value) && Object.values(value).every((v) => typeof v === "string"),
  },
};

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

/** Compares an object's fields with what they should be. */
function problemsOf(prefix: string, value: unknown, keys: Keys): string[] {
  if (!isObject(value)) return [`expected an object, got ${JSON.stringify(value)}`];
  const unknown = Object.keys(value).filter((key) => keys[key] === undefined);
  return [
    ...unknown.map((key) => `${prefix}${key}: unknown key`),
    ...Object.entries(keys).flatMap(([key, wanted]) => {
      const kind = kinds[wanted.replace("?", "") as Kind];
      const isMissing = value[key] === undefined;
      if (isMissing ? wanted.endsWith("?") : kind.test(value[key])) return [];
      const got = isMissing ? "nothing" : JSON.stringify(value[key]);
      return [`${prefix}${key}: expected ${kind.expected}, got ${got}`];
    }),
  ];
}
