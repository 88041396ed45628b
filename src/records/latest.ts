import { CniError, CniErrorCode } from "#cni/error.ts";
import { latestFileName } from "#lib/files/state-files.ts";
import { readIfPresent } from "./state-file.ts";

/** How a kind of file is read. */
interface LatestOptions<T> {
  /** For errors. */
  readonly description: string;
  /** @throws CniError 6 when the content is damaged */
  readonly parse: (bytes: Buffer, path: string) => T;
}

/**
 * The newest usable content of a file. An update is kept beside the file until it is durable, and is the
 * content then. Should it be damaged, the file itself counts, which is older than what was done since:
 * its boot is then not known, so that everything in it has to be detached.
 * @throws CniError 5 when a file cannot be read, 6 when none is usable
 */
export async function readLatest<T extends { readonly bootId: string }>(
  path: string,
  { description, parse }: LatestOptions<T>,
): Promise<T | undefined> {
  const latestPath = latestFileName(path);
  const latest = await readIfPresent(latestPath, description);
  const older = async (): Promise<T | undefined> => {
    const bytes = await readIfPresent(path, description);
    return bytes === undefined ? undefined : parse(bytes, path);
  };
  if (latest === undefined) return older();
  try {
    return parse(latest, latestPath);
  } catch (error) {
    const isDamaged = error instanceof CniError && error.code === CniErrorCode.DecodingFailure;
    const usable = isDamaged ? await older() : undefined;
    if (usable === undefined) throw error;
    return { ...usable, bootId: "" };
  }
}
