import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { repositoryRoot } from "../../support/paths.ts";

/** What the matrix runs beside the product: made anew for it, gone with it. */
export interface Builds extends AsyncDisposable {
  /** The directory of the compiled fixtures: `gate` and `host-address`. */
  readonly fixtures: string;
  /** A shim of another release: CHAOS_PREVIOUS_SHIM, or this one with another protocol version. */
  readonly previousShim: string;
}

/** Builds it all in a temporary directory. */
export async function makeBuilds(): Promise<Builds> {
  const dir = await mkdtemp(join(tmpdir(), "plexus-chaos-"));
  const fixtures = join(dir, "fixtures");
  await mkdir(fixtures);
  for (const name of ["gate", "host-address"]) {
    const source = join(import.meta.dirname, `fixtures/${name}.c`);
    const flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-static"];
    await execa("cc", [...flags, "-o", join(fixtures, name), source]);
  }
  const previousShim = process.env.CHAOS_PREVIOUS_SHIM ?? (await shimOfOtherVersion(dir));
  return {
    fixtures,
    previousShim,
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}

async function shimOfOtherVersion(dir: string): Promise<string> {
  const source = join(dir, "shim");
  await cp(join(repositoryRoot, "shim"), source, { recursive: true });
  const header = join(source, "protocol.h");
  const text = await readFile(header, "utf8");
  const other = text.replace(/(#define PROTOCOL_VERSION) "\d+"/, '$1 "0"');
  if (other === text) throw new Error("shim/protocol.h defines no PROTOCOL_VERSION");
  await writeFile(header, other);
  const shim = join(dir, "plexus-previous");
  await execa("make", ["-C", source, `OUT=${shim}`, "VERSION=previous", "COMMIT=none"]);
  return shim;
}
