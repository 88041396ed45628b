import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "./run.ts";

/** Points apt to separate sources, lists and a cache. */
type AptEnvironment = Readonly<Record<"APT_CONFIG", string>>;

/** Downloads packages of backports and what they depend on, as far as the machine has none of it. */
export async function downloadWithDependencies(
  names: readonly string[],
  env: AptEnvironment,
): Promise<void> {
  const suite = `${await releaseName()}-backports`;
  const options = ["--download-only", "--yes", "--no-install-recommends", "-t", suite];
  await run(["apt-get", "install", ...options, ...names], { env });
}

/**
 * The kernel's packages that a metapackage stands for: `linux-image-6.12.95-amd64` for `linux-image-amd64`. Debian 13 has
 * separate packages of the program, the modules and what describes them.
 * @throws Error when it stands for none
 */
export async function kernelPackages(name: string, env: AptEnvironment): Promise<string[]> {
  const packages = await partsOf(name, env);
  if (packages.length > 0) return packages;
  throw new Error(`${name} of ${await releaseName()}-backports names no packages of a kernel`);
}

async function partsOf(name: string, env: AptEnvironment): Promise<string[]> {
  const suite = `APT::Default-Release=${await releaseName()}-backports`;
  const shown = await run(["apt-cache", "-o", suite, "show", "--no-all-versions", name], { env });
  const [, dependencies = ""] = /^Depends: (.+)/m.exec(shown) ?? [];
  const part = /\b(linux-(?:image|base|binary|modules)-\S+) \(= ([^)]+)\)/g;
  const parts = [...dependencies.matchAll(part)];
  const further = parts.map(([, each = ""]) => partsOf(each, env));
  const found = parts.map(([, each, version]) => `${each}=${version}`);
  return [...new Set([...found, ...(await Promise.all(further)).flat()])];
}

/**
 * Writes an apt configuration with separate sources and lists, so that the machine's stay as they are.
 * @param architecture of a machine that has no packages yet. @default this machine's, with its packages
 */
export async function writeAptConfig(
  directory: string,
  suites: readonly string[],
  architecture?: string,
): Promise<AptEnvironment> {
  await mkdir(join(directory, "lists", "partial"), { recursive: true });
  await mkdir(join(archivesOf(directory), "partial"), { recursive: true });
  // A copy: apt locks the directory that it is in.
  const installed = architecture === undefined ? "/var/lib/dpkg/status" : "/dev/null";
  await copyFile(installed, join(directory, "status"));
  const sources = join(directory, "debian.sources");
  await writeFile(
    sources,
    [
      "Types: deb",
      `URIs: ${await mirror()}`,
      `Suites: ${suites.join(" ")}`,
      "Components: main",
      "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg",
      "",
    ].join("\n"),
  );
  const config = join(directory, "apt.conf");
  const settings = {
    "Dir::Etc::sourcelist": sources,
    "Dir::Etc::sourceparts": "-",
    "Dir::State::lists": join(directory, "lists"),
    "Dir::State::status": join(directory, "status"),
    "Dir::Cache": join(directory, "cache"),
    "Acquire::Languages": "none",
    "Acquire::Retries": "3",
    // Everything here is below a directory that only root may enter.
    "APT::Sandbox::User": "root",
    ...(architecture === undefined ? {} : { "APT::Architecture": architecture }),
  };
  const lines = Object.entries(settings).map(([key, value]) => `${key} "${value}";\n`);
  await writeFile(config, lines.join(""));
  return { APT_CONFIG: config };
}

/** Where such a configuration has packages with what they depend on downloaded to. */
export function archivesOf(directory: string): string {
  return join(directory, "cache", "archives");
}

/** The mirror that this machine's own apt takes its release from. */
export async function mirror(): Promise<string> {
  const format = "$(CODENAME) $(REPO_URI)";
  const listed = await run(["apt-get", "indextargets", "--format", format, "Created-By: Packages"]);
  const release = await releaseName();
  const line = listed.split("\n").find((entry) => entry.startsWith(`${release} `));
  if (line === undefined) {
    throw new Error(`cannot find the mirror of Debian ${release} among apt's sources`);
  }
  return line.slice(release.length + 1);
}

/** The code name of the machine's Debian release. @throws Error when it is no Debian */
export async function releaseName(): Promise<string> {
  const text = await readFile("/etc/os-release", "utf8");
  const name = /^VERSION_CODENAME=(\w+)$/m.exec(text)?.[1];
  if (name === undefined) {
    throw new Error("cannot find VERSION_CODENAME in /etc/os-release: not a Debian release");
  }
  return name;
}
