import * as z from "zod";
import { type Limit, limits } from "#cni/limits.ts";
import { networkKeys } from "#engine/config-keys.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { configSchema } from "./schema.ts";

/** What is used of a JSON Schema. */
interface Schema {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly description?: string;
  readonly default?: unknown;
  readonly restart?: boolean;
}

const names = Object.keys(networkKeys);

const head = `<!-- Made by scripts/config-docs.ts from src/daemon/config/schema.ts. Do not edit. -->

# Configuration

plexusd reads \`${defaultPaths.configFile}\` (\`--config FILE\`): the key \`config.yaml\` of the ConfigMap
\`plexus-config\`. Every key is optional and an empty file is a complete configuration. Unknown keys
and wrong types are refused, with line and key; \`plexusctl config check FILE\` checks a file before
it is used.

The file is read again when it changes. When the changed file cannot be used, the log and an event
on the node say why, and the previous configuration stays in effect. Keys marked *start* are only
read when plexusd starts.

Keys that Multus has too mean the same here. The network configuration that the container runtime
hands over (\`"type": "plexus"\`) takes the keys from \`${names[0]}\` to \`${names.at(-1)}\` as
well; a key that both have is taken from this file. \`clusterNetwork\` and \`delegates\` go together: when
this file gives one of them, the runtime's configuration decides about neither. On either side only
one of them may be given, and only one of \`plexusNamespace\` and \`multusNamespace\`.

| key | type | default | meaning |
|---|---|---|---|
`;

const limitsHead = `
## Limits

What is longer is refused with code 100 and a message with field, value and limit, before anything is
attached. The limits cannot be configured: they keep one pod from holding up the calls of others. A DEL is
never refused for them.

| what | at most |
|---|---|
`;

/** The text of docs/user/configuration.md. */
export function renderConfigDocs(): string {
  const schema = z.toJSONSchema(configSchema, { unrepresentable: "any", io: "input" }) as Schema;
  return `${head}${rowsOf(schema, "").join("\n")}\n${limitsHead}${limitRows().join("\n")}\n`;
}

function limitRows(): string[] {
  return Object.values<Limit>(limits).map(
    ({ description, max, unit }) => `| ${description} | ${amountOf(max, unit)} |`,
  );
}

/** A number of bytes in the largest binary unit that fits without a rest. */
function amountOf(max: number, unit: Limit["unit"]): string {
  if (unit !== "bytes") return `${max}`;
  return max % (1 << 20) === 0 ? `${max >> 20} MiB` : `${max >> 10} KiB`;
}

function rowsOf(schema: Schema, prefix: string): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, value]) => {
    const key = `${prefix}${name}`;
    const nested = value.properties === undefined ? [] : rowsOf(value, `${key}.`);
    const meaning = `${value.description ?? ""}${value.restart === true ? " *start*" : ""}`;
    const cells = [`\`${key}\``, typeOf(value), defaultOf(value), meaning];
    return [`| ${cells.join(" | ")} |`, ...nested];
  });
}

function typeOf(schema: Schema): string {
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${value}\``).join(", ");
  if (schema.anyOf !== undefined) {
    return [...new Set(schema.anyOf.map(typeOf))].join(" or ");
  }
  if (schema.items !== undefined) return `list of ${typeOf(schema.items)}s`;
  if (typeof schema.additionalProperties === "object" && schema.properties === undefined) {
    return schema.additionalProperties.type === undefined
      ? "object"
      : `map of ${schema.additionalProperties.type}s`;
  }
  return schema.type ?? "string";
}

function defaultOf(schema: Schema): string {
  return schema.default === undefined || schema.properties !== undefined
    ? ""
    : `\`${JSON.stringify(schema.default)}\``;
}
