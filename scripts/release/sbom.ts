import { execa } from "execa";
import manifest from "../../package.json" with { type: "json" };

interface Component {
  readonly type: string;
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly properties?: readonly { readonly name: string }[];
  readonly [key: string]: unknown;
}

/** The parts of a CycloneDX document that this script changes. */
interface Sbom {
  readonly metadata: { readonly component: Component; readonly [key: string]: unknown };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: string[] }[];
  readonly [key: string]: unknown;
}

/**
 * The components of a release as CycloneDX: npm's list of bundled packages, the image's Node and the shim's
 * libc. It has no time and no serial number, so that it is reproducible. @throws Error where there is no musl
 */
export async function makeSbom(version: string): Promise<string> {
  const args = ["sbom", "--sbom-format=cyclonedx", "--package-lock-only"];
  const { stdout } = await execa("npm", args, { cwd: new URL("../../", import.meta.url) });
  const sbom = JSON.parse(stdout) as Sbom;
  const { serialNumber: _serial, metadata, components, dependencies, ...rest } = sbom;
  const { timestamp: _time, component, ...otherMetadata } = metadata;
  const plexus = { ...component, name: "plexus", version, purl: `pkg:generic/plexus@${version}` };
  const packages = components.filter((each) => !isForDevelopment(each));
  const refs = new Set([...packages.map(refOf), refOf(component)]);
  const runtimes = [
    // The Node that package.json pins and the image contains.
    runtime("application", { name: "node", version: manifest.devDependencies.node }),
    runtime("library", { name: "musl", version: await muslVersion() }),
  ];
  const result = {
    ...rest,
    metadata: { ...otherMetadata, component: plexus },
    components: [...packages, ...runtimes],
    dependencies: dependencies
      .filter(({ ref }) => refs.has(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((to) => refs.has(to)) })),
  };
  return `${JSON.stringify(result, undefined, 2)}\n`;
}

/** npm's --omit=dev also omits packages that both kinds of dependencies need. */
function isForDevelopment({ properties = [] }: Component): boolean {
  return properties.some(({ name }) => name === "cdx:npm:package:development");
}

function refOf(component: Component): string {
  return String(component["bom-ref"]);
}

/** Components that are not npm packages. Both have the MIT licence. */
function runtime(type: string, { name, version }: { name: string; version: string }): Component {
  return {
    "bom-ref": `${name}@${version}`,
    type,
    name,
    version,
    scope: "required",
    purl: `pkg:generic/${name}@${version}`,
    licenses: [{ license: { id: "MIT" } }],
  };
}

/** The version that musl's dynamic loader prints. Without a program, the loader fails. */
async function muslVersion(): Promise<string> {
  const arch = { x64: "x86_64", arm64: "aarch64" }[process.arch as string] ?? process.arch;
  const { stderr } = await execa(`/lib/ld-musl-${arch}.so.1`, { reject: false });
  const version = /^Version (\S+)$/m.exec(stderr ?? "")?.[1];
  if (version === undefined) throw new Error("there is no musl: install musl-tools");
  return version;
}
