import { existsSync } from "node:fs";
import { chmod, copyFile, mkdir, realpath } from "node:fs/promises";
import { dirname, join } from "node:path";
import { execa } from "execa";

/** Options that make archives reproducible. */
export const reproducible = [
  "--sort=name",
  "--mtime=@0",
  "--owner=0",
  "--group=0",
  "--numeric-owner",
];

const caBundles = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/** The certificate bundle of this system, if it has one. */
export function caBundlePath(): string | undefined {
  return caBundles.find((path) => existsSync(path));
}

/** Copies the certificate bundle of this system into a root file system, if it has one. */
export async function installCaBundle(root: string): Promise<void> {
  const found = caBundlePath();
  if (found !== undefined)
    await install(found, join(root, "etc/ssl/certs/ca-certificates.crt"), 0o644);
}

/** Copies a file and creates its directory. */
export async function install(from: string, to: string, mode: number): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await copyFile(from, to);
  await chmod(to, mode);
}

/** Copies a program with its shared libraries into a root file system. Returns the paths of all on this system. */
export async function installProgram(root: string, program: string, to: string): Promise<string[]> {
  const file = await realpath(program);
  await install(file, join(root, to), 0o755);
  const libraries = await sharedLibraries(file);
  for (const library of libraries) {
    if (!existsSync(join(root, library)))
      await install(await realpath(library), join(root, library), 0o755);
  }
  return [file, ...libraries];
}

/** The libraries that the dynamic loader resolves for a program, the loader itself included; none for a static one. */
export async function sharedLibraries(program: string): Promise<string[]> {
  const { stdout } = await execa("ldd", [program], { reject: false });
  return stdout.split("\n").flatMap((line) => {
    const found = /(?:=> |^\s*)(\/\S+) \(0x/.exec(line);
    return found?.[1] === undefined ? [] : [found[1]];
  });
}
