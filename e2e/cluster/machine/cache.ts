import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

/** The directory, outside of the repository, that keeps what takes long to make. */
export function cacheRoot(): string {
  return join(process.env.PLEXUS_CACHE ?? join(homedir(), ".cache", "plexus"), "e2e-cluster");
}

/**
 * Returns the cached directory that was made from `inputs`, and has `make` fill it if there is none yet.
 * Of several processes that ask at once, one makes it and the others wait; a half-made one is never seen.
 */
export async function cachedDirectory(
  name: string,
  inputs: readonly (string | Buffer)[],
  make: (directory: string) => Promise<void>,
): Promise<string> {
  const root = cacheRoot();
  const finished = join(root, `${name}-${digest(inputs)}`);
  if (existsSync(finished)) {
    return finished;
  }
  await mkdir(root, { recursive: true });
  await using _lock = await lockFile(join(root, `${name}.lock`));
  if (!existsSync(finished)) {
    const unfinished = await mkdtemp(`${finished}.tmp-`);
    using _progress = progress(name);
    try {
      await make(unfinished);
      await rename(unfinished, finished);
    } finally {
      await rm(unfinished, { recursive: true, force: true });
    }
  }
  return finished;
}

/** Says that something is made, and each minute that it still is: Kubernetes takes ten. */
function progress(name: string): Disposable {
  const begun = performance.now();
  const say = (text: string): void => void process.stderr.write(`making ${name}${text}\n`);
  say(", once");
  const timer = setInterval(() => {
    say(`: ${Math.round((performance.now() - begun) / 60_000)} minutes so far`);
  }, 60_000);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

function digest(inputs: readonly (string | Buffer)[]): string {
  const hash = createHash("sha256");
  for (const input of inputs) {
    hash.update(`${Buffer.byteLength(input)}:`).update(input);
  }
  return hash.digest("hex").slice(0, 16);
}

/**
 * Takes an exclusive lock on a file. A child holds it, so that it ends with this process, however that ends.
 * Equivalent to: `flock FILE cat`.
 */
async function lockFile(path: string): Promise<AsyncDisposable> {
  const holder = spawn("flock", [path, "sh", "-c", "echo locked; exec cat"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(holder, "exit");
  const locked = await Promise.race([once(holder.stdout, "data"), ended.then(() => undefined)]);
  if (locked === undefined) {
    throw new Error(`cannot lock ${path}: flock ended`);
  }
  return {
    async [Symbol.asyncDispose]() {
      holder.stdin.end();
      await ended;
    },
  };
}
