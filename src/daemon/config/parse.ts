import {
  type Document,
  isMap,
  isNode,
  isScalar,
  LineCounter,
  type Node,
  parseDocument,
} from "yaml";
import type * as z from "zod";
import { errorMessage } from "#lib/error-message.ts";
import { fieldPath } from "#lib/parsing/parse-with.ts";
import { yamlOptions, yamlProblems } from "#lib/parsing/yaml.ts";
import { configFromFile, type DaemonConfig } from "./config.ts";
import { configSchema } from "./schema.ts";

interface ConfigProblem {
  /** From 1. */
  readonly line: number;
  /** `primary.settleMs`; empty for the whole file. */
  readonly key: string;
  readonly problem: string;
}

/** A configuration that cannot be used, with all problems. @internal */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly problems: readonly ConfigProblem[];

  constructor(source: string, problems: readonly ConfigProblem[]) {
    const lines = problems.map(({ line, key, problem }) =>
      [`${source}:${line}`, ...(key === "" ? [] : [key]), problem].join(": "),
    );
    super(lines.join("\n"));
    this.problems = problems;
  }
}

/** Reads YAML or JSON; `source` names it in messages. @throws ConfigError with every problem */
export function parseConfig(text: string, source: string): DaemonConfig {
  const lines = new LineCounter();
  const options = { ...yamlOptions, lineCounter: lines, strict: true, stringKeys: true };
  const document = parseDocument(text, options);
  if (document.errors.length > 0) {
    const problems = yamlProblems(document, lines);
    throw new ConfigError(
      source,
      problems.map(({ line, message }) => ({ line: line || 1, key: "", problem: message })),
    );
  }
  const parsed = configSchema.safeParse(toValue(document, source) ?? {});
  if (parsed.success) return configFromFile(parsed.data);
  const problems = parsed.error.issues.flatMap((issue) => problemsOf(issue, document, lines));
  throw new ConfigError(
    source,
    problems.sort((a, b) => a.line - b.line),
  );
}

/** The document's value; finds aliases without an anchor and excessive alias expansion. */
function toValue(document: Document, source: string): unknown {
  try {
    return document.toJS();
  } catch (cause) {
    throw new ConfigError(source, [{ line: 1, key: "", problem: errorMessage(cause) }]);
  }
}

function problemsOf(
  issue: z.core.$ZodIssue,
  document: Document,
  lines: LineCounter,
): ConfigProblem[] {
  if (issue.code !== "unrecognized_keys") {
    const problem = issue.message.replace(/^Invalid input: /, "");
    return [{ ...placeOf(issue.path, document, lines), problem }];
  }
  return issue.keys.map((key) => ({
    ...placeOf([...issue.path, key], document, lines),
    problem: "unknown key",
  }));
}

function placeOf(
  path: readonly PropertyKey[],
  document: Document,
  lines: LineCounter,
): { line: number; key: string } {
  return { line: lines.linePos(offsetOf(path, document)).line || 1, key: fieldPath(path) };
}

/** The offset of the last key of a path, or of its parent if the key is absent. */
function offsetOf(path: readonly PropertyKey[], document: Document): number {
  let node: unknown = document.contents;
  let offset = startOf(node);
  for (const part of path) {
    const pair = isMap(node) ? node.items.find((item) => keyText(item.key) === part) : undefined;
    if (pair !== undefined) {
      offset = startOf(pair.key) || offset;
      node = pair.value;
    } else {
      node =
        isNode(node) && "get" in node ? (node as unknown as Gettable).get(part, true) : undefined;
      offset = startOf(node) || offset;
    }
  }
  return offset;
}

interface Gettable {
  get(key: unknown, keepScalar: true): unknown;
}

function keyText(key: unknown): unknown {
  return isScalar(key) ? key.value : key;
}

function startOf(node: unknown): number {
  return (isNode(node) ? (node as Node).range?.[0] : undefined) ?? 0;
}
