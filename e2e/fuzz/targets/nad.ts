import fc from "fast-check";
import { CniError } from "#cni/error.ts";
import { json, mutated, validList } from "#cni/testing/arbitrary.ts";
import type { JsonObject } from "#lib/json.ts";
import { ManifestError, parseManifestFile } from "#manifests/documents.ts";
import { nadConf, parseNad } from "#npwg/nad.ts";
import { jsonTokens, refusing, refusingLater, type Target } from "../target.ts";

const text = fc.oneof(validList, mutated(validList), json).map((conf) => JSON.stringify(conf));

const definition: fc.Arbitrary<JsonObject> = fc
  .record({
    name: fc.stringMatching(/^[a-z0-9.-]{1,12}$/),
    annotations: fc.dictionary(fc.string(), fc.string()),
    config: text,
  })
  .map(({ name, annotations, config }) => ({
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default", annotations },
    spec: { config },
  }));

const isRefusal = (error: unknown): boolean => error instanceof CniError;

/** A NetworkAttachmentDefinition, as the API has it and as a manifest, and the configuration in it. */
export const nad: Target = {
  maxLength: 140_000,
  inputs: fc.oneof(definition, mutated(definition)).map((object) => JSON.stringify(object)),
  tokens: [...jsonTokens, "---\n", "- ", "&a ", "*a ", "!!x ", "? ", "| ", "> ", "# ", "'"],
  async read(input) {
    refusing(
      () => parseManifestFile(input, "a.yaml"),
      (error) => error instanceof ManifestError,
    );
    const object = refusing(
      () => JSON.parse(input) as unknown,
      () => true,
    );
    const parsed = refusing(() => parseNad(object, { isManifest: false }), isRefusal);
    if (parsed === undefined) return;
    const noFile = (name: string): Promise<never> => Promise.reject(new CniError(7, name));
    await refusingLater(nadConf(parsed, noFile), isRefusal);
  },
};
