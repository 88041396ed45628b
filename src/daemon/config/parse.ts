import { type Document, isNode, LineCounter, parseDocument, visit } from "yaml";
import { formerKeys, withoutFormerKeys } from "#engine/config-keys.ts";
import { schemaOf } from "#engine/config-table.ts";
import { didYouMean } from "#lib/did-you-mean.ts";
import { errorMessage } from "#lib/error-message.ts";
import { exactNumber, isJsonObject } from "#lib/json.ts";
import { fieldPath, problemsOf } from "#lib/parsing/parse-with.ts";
import { offsetOf, yamlOptions, yamlProblems } from "#lib/parsing/yaml.ts";
import { configFromFile, type DaemonConfig, fileKeys } from "./config.ts";

/** The schema of the configuration file. @internal */
export const configSchema = schemaOf(fileKeys);

interface ConfigProblem {
  /** From 1. */
  readonly line: number;
  /** `delegates[0].type`; empty for the whole file. */
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
  return parseFile(text, { source }).config;
}

/**
 * As {@link parseConfig}, over the values of another file; also its own values, and those of both.
 * Former keys are left out, with a warning each.
 */
export function parseFile(
  text: string,
  { source, below = {} }: { readonly source: string; readonly below?: object },
): { config: DaemonConfig; values: object; own: object; warnings: readonly string[] } {
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
  keepDigits(document);
  const lineOf = (path: readonly PropertyKey[]): number =>
    lines.linePos(offsetOf(path, document)).line || 1;
  const given = toValue(document, source) ?? {};
  const own = isJsonObject(given) ? withoutFormerKeys(given) : given;
  const value = isJsonObject(own) ? { ...below, ...own } : own;
  const parsed = configSchema.safeParse(value);
  if (parsed.success) {
    const warnings = Object.keys(given).flatMap((key) => {
      const where = `${source}:${lineOf([key])}: ${key}`;
      const now = Object.hasOwn(formerKeys, key) ? formerKeys[key] : undefined;
      return now === undefined ? [] : `${where}: remove this former key: ${now}`;
    });
    return { config: configFromFile(parsed.data), values: value, own, warnings };
  }
  const problems = problemsOf(parsed.error, value).map(({ path, reason }): ConfigProblem => {
    const key = fieldPath(path);
    return { line: lineOf(path), key, problem: `${reason}${insteadOf(key, reason)}` };
  });
  throw new ConfigError(
    source,
    problems.sort((a, b) => a.line - b.line),
  );
}

/** What an unknown key may have meant. */
function insteadOf(key: string, reason: string): string {
  return reason.startsWith("unknown key") ? didYouMean(key, Object.keys(fileKeys)) : "";
}

/** Plugins get the integers of inline configurations unchanged, as those of definitions. */
function keepDigits(document: Document): void {
  const delegates = document.get("delegates", true);
  if (!isNode(delegates)) return;
  visit(delegates, {
    Scalar: (_, node) => {
      if (typeof node.value === "number") node.value = exactNumber(node.value, node.source ?? "");
    },
  });
}

/** The document's value; finds aliases without an anchor and excessive alias expansion. */
function toValue(document: Document, source: string): unknown {
  try {
    return document.toJS();
  } catch (cause) {
    throw new ConfigError(source, [{ line: 1, key: "", problem: errorMessage(cause) }]);
  }
}
