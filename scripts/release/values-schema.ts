import { readFileSync } from "node:fs";
import { parse, stringify } from "yaml";
import * as z from "zod";
import { configSchema } from "#daemon/config/parse.ts";
import { formerKeys } from "#engine/config-keys.ts";
import { configKeys } from "../docs/configuration.ts";

type Schema = Readonly<Record<string, unknown>>;

const chart = new URL("../../deploy/chart/", import.meta.url);
const text: Schema = { type: "string" };
const enabled: Schema = { type: "boolean" };
const object: Schema = { type: "object" };
const texts: Schema = { type: "object", additionalProperties: text };

/** A key of labels and taints: `[prefix/]name`. */
const qualifiedName =
  "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$";

/** `1Gi`, or a number. */
const amount: Schema = { type: ["string", "number"] };
const amounts: Schema = { type: "object", additionalProperties: amount };
const resources = closed({ limits: amounts, requests: amounts, claims: { type: "array" } });

/** Of a ValidatingAdmissionPolicy. The API server refuses both a denial and a warning. */
const actions: Schema = {
  enum: [[], ["Deny"], ["Warn"], ["Audit"], ["Deny", "Audit"], ["Warn", "Audit"]],
};

const toleration = closed({
  key: { type: "string", pattern: `^$|${qualifiedName}` },
  operator: { enum: ["Exists", "Equal"] },
  value: text,
  effect: { enum: ["", "NoSchedule", "PreferNoSchedule", "NoExecute"] },
  tolerationSeconds: { type: "integer" },
});

/** The DaemonSets select their pods by these, so that no value may change them. */
const selectorLabels = { "app.kubernetes.io/name": false, "app.kubernetes.io/component": false };

/**
 * The text of deploy/chart/values.schema.json. It rejects unknown values, and checks plexusd's configuration as
 * far as a JSON schema can.
 */
export function valuesSchema(): string {
  const schema = {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    // Of an earlier chart, as helm upgrade --reuse-values keeps it. It has no effect.
    patternProperties: { "^sandboxes$": { ...object, deprecated: true } },
    ...closed({
      platform: { enum: ["", ...platforms()] },
      flavour: { enum: ["thick", "thin"] },
      image: closed({
        repository: text,
        tag: text,
        digest: { type: "string", pattern: "^(sha256:[0-9a-f]{64})?$" },
        pullPolicy: { enum: ["", "Always", "IfNotPresent", "Never"] },
      }),
      imagePullSecrets: listOf(closed({ name: text })),
      config: configuration(),
      crds: closed({ enabled }),
      metrics: closed({
        enabled,
        port: { type: "integer", minimum: 1, maximum: 65_535 },
        monitoring: enabled,
        labels: texts,
        tlsConfig: object,
        serviceMonitor: enabled,
        serviceAnnotations: texts,
      }),
      apiPriority: closed({ enabled }),
      startupTaint: closed({ enabled, key: { type: "string", pattern: qualifiedName } }),
      networkPlacement: closed({ enabled }),
      endpoints: closed({ enabled }),
      agent: closed({ enabled, anyOwner: { enum: ["", true, false] } }),
      kubeletDir: { type: "string", pattern: "^/." },
      deviceCheckpoint: closed({ enabled }),
      resourcesInjector: closed({
        enabled,
        image: { type: "string", minLength: 1 },
        certificate: text,
        key: text,
      }),
      admission: closed({
        definitions: actions,
        pluginTypes: listOf({ type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9_.-]*$" }),
        pods: actions,
        status: actions,
        statusWriters: listOf({ type: "string", pattern: "^[^'\\\\]+$" }),
        inUse: actions,
      }),
      referencePlugins: closed({ enabled }),
      dhcp: closed({ enabled }),
      resources,
      initResources: resources,
      extraEnv: listOf({
        ...closed({ name: text, value: text, valueFrom: object }),
        required: ["name"],
      }),
      updateStrategy: closed({
        type: { enum: ["RollingUpdate", "OnDelete"] },
        rollingUpdate: closed({ maxUnavailable: amount, maxSurge: amount }),
      }),
      nodeSelector: texts,
      tolerations: listOf(toleration),
      affinity: closed({ nodeAffinity: object, podAffinity: object, podAntiAffinity: object }),
      priorityClassName: text,
      podAnnotations: texts,
      podLabels: { ...texts, properties: selectorLabels },
      test: closed({
        image: { type: "string", minLength: 1 },
        plugin: { enum: ["ptp", "bridge"] },
      }),
      uninstall: enabled,
      uninstallSeconds: { type: "integer", minimum: 60 },
      // Helm sets it for charts that depend on this one.
      global: object,
    }),
  };
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}

/** plexusd's configuration. plexusd itself warns of former keys. */
function configuration(): Schema {
  const {
    $schema: _,
    properties,
    ...schema
  } = z.toJSONSchema(configSchema, {
    io: "input",
    unrepresentable: "any",
    override: ({ jsonSchema }) => {
      delete jsonSchema.readOnly;
    },
  });
  const former = Object.keys(formerKeys).map((key) => [key, { deprecated: true }]);
  return { ...schema, properties: { ...properties, ...Object.fromEntries(former) } };
}

/** The text of deploy/chart/start-keys.yaml: the keys that plexusd reads only when it starts. */
export function startKeys(): string {
  const keys = configKeys().filter(([, { restart }]) => restart === true);
  const head = "# Made by scripts/chart-schema.ts. plexusd reads these keys only when it starts.\n";
  return head + stringify(keys.map(([name]) => name));
}

function platforms(): string[] {
  return Object.keys(parse(readFileSync(new URL("platforms.yaml", chart), "utf8")) as object);
}

function closed(properties: Readonly<Record<string, Schema>>): Schema {
  return { type: "object", properties, additionalProperties: false };
}

function listOf(items: Schema): Schema {
  return { type: "array", items };
}
