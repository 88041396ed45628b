import { chmod, copyFile, mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
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

/** Path of the certificate bundle in root file systems. */
export const caBundle = "etc/ssl/certs/ca-certificates.crt";

/** The certificate bundle of this system, if it has one. */
export async function systemCaBundle(): Promise<string | undefined> {
  for (const bundle of caBundles) {
    if ((await stat(bundle).catch(() => undefined)) !== undefined) return bundle;
  }
  return undefined;
}

/** Copies a file and creates its directory. */
export async function install(from: string, to: string, mode: number): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await copyFile(from, to);
  await chmod(to, mode);
}

/** The libraries that the dynamic loader resolves for a program, the loader itself included; none for a static one. */
export async function sharedLibraries(program: string): Promise<string[]> {
  const { stdout } = await execa("ldd", [program], { reject: false });
  return stdout.split("\n").flatMap((line) => {
    const found = /(?:=> |^\s*)(\/\S+) \(0x/.exec(line);
    return found?.[1] === undefined ? [] : [found[1]];
  });
}
