import type { Component } from "./component.ts";

/** The artifact that a list of components is for. */
interface Artifact {
  readonly version: string;
  readonly components: readonly Component[];
}

/**
 * The components of an artifact as a CycloneDX document. It has no time and no serial number, so that it is
 * reproducible.
 */
export function sbomOf({ version, components }: Artifact): string {
  const purl = `pkg:generic/plexus@${version}`;
  const licenses = [{ license: { id: "Apache-2.0" } }];
  const plexus = { type: "application", name: "plexus", version, purl, licenses };
  const dependsOn = components.map((each) => each.purl);
  const document = {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: { component: { "bom-ref": purl, ...plexus } },
    components: components.map(({ type, name, version: its, purl: ref, licence }) => ({
      "bom-ref": ref,
      ...{ type, name, version: its, purl: ref },
      ...(licence === undefined ? {} : { licenses: [{ expression: licence }] }),
    })),
    dependencies: [{ ref: purl, dependsOn }],
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}
