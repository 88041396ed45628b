import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { changedText, type SourceChange } from "../safeguards/mutation.ts";
import { nodeBinary, repositoryRoot } from "../support/paths.ts";

/** A build with one safeguard taken out. */
export interface Mutant extends AsyncDisposable {
  /** In place of dist/. */
  readonly dist: string;
}

/** Builds a mutant. @throws Error when the change's text does not occur exactly once */
export async function buildMutant(change: SourceChange): Promise<Mutant> {
  const dir = await mkdtemp(join(tmpdir(), "plexus-mutant-"));
  const dist = join(dir, "dist");
  await mkdir(dist);
  for (const part of ["shim", "src", "scripts", "package.json"])
    await cp(join(repositoryRoot, part), join(dir, part), { recursive: true });
  await symlink(join(repositoryRoot, "node_modules"), join(dir, "node_modules"));
  await writeFile(join(dir, change.file), await changedText(change));
  if (change.file.startsWith("shim/")) {
    const names = ["VERSION=mutant", "COMMIT=none"];
    await execa("make", ["-C", join(dir, "shim"), `OUT=${join(dist, "plexus")}`, ...names]);
  } else await execa(nodeBinary(), ["scripts/bundle.ts"], { cwd: dir });
  const built = await readdir(dist);
  const original = process.env.PLEXUS_DIST ?? join(repositoryRoot, "dist");
  for (const name of await readdir(original))
    if (!built.includes(name)) await symlink(join(original, name), join(dist, name));
  return { dist, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) };
}
