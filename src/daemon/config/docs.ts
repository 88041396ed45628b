import * as z from "zod";
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

const head = `<!-- Made by scripts/config-docs.ts from src/daemon/config/schema.ts. Do not edit. -->

# Configuration

plexusd reads \`/etc/plexus/config.yaml\` (\`--config FILE\`): the key \`config.yaml\` of the ConfigMap
\`plexus-config\`. Every key is optional and an empty file is a complete configuration. Unknown keys
and wrong types are refused, with line and key; \`plexusctl config check FILE\` tells beforehand.

The file is read again when it changes. A changed file that cannot be used is told in the log and
by an event on the node, and the configuration before it stays in force. Keys marked *start* are
read when plexusd starts only.

Keys that Multus has too mean the same here. The network configuration that the container runtime
hands over (\`"type": "plexus"\`) takes the keys from \`clusterNetwork\` to \`readinessindicatorfile\`
and \`invalidAnnotation\` as well; where both say something, this file wins. \`clusterNetwork\` and \`delegates\` go together: a
side that gives one of them has spoken for both.

| key | type | default | meaning |
|---|---|---|---|
`;

/** The text of docs/configuration.md. */
export function renderConfigDocs(): string {
  const schema = z.toJSONSchema(configSchema, { unrepresentable: "any", io: "input" }) as Schema;
  return `${head}${rowsOf(schema, "").join("\n")}\n`;
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
  return schema.default === undefined ? "" : `\`${JSON.stringify(schema.default)}\``;
}
