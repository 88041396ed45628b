import { readFile, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { defaultPaths } from "#lib/files/default-paths.ts";

/** Which places of the host a process sees. */
export interface HostView {
  /** Whether what is at this absolute path is the host's, or nothing is there on the host. */
  sees(path: string): boolean;
}

/** The view of a process that runs on the host itself. */
export const wholeHost: HostView = { sees: () => true };

/** The view of a process in whose container only these files and directories are the host's. */
export function viewOf(mounted: readonly string[]): HostView {
  const places = mounted.map((path) => resolve(path));
  return {
    sees: (path) => {
      const wanted = resolve(path);
      return places.some((place) => wanted === place || wanted.startsWith(`${place}/`));
    },
  };
}

/** The view of this process: all of the host, or what is mounted into the container image. */
export async function readHostView({
  imageDir = defaultPaths.imageDir as string,
  mountInfo = "/proc/self/mountinfo",
} = {}): Promise<HostView> {
  const isInImage = await stat(imageDir).then(
    (found) => found.isDirectory(),
    () => false,
  );
  return isInImage ? viewOf(mountPoints(await readFile(mountInfo, "utf8"))) : wholeHost;
}

/** The fifth field of each line (proc(5)); the root directory is the image's, not the host's. */
function mountPoints(mountInfo: string): string[] {
  const paths = mountInfo.split("\n").flatMap((line) => line.split(" ")[4] ?? []);
  return paths.map(unescapeOctal).filter((path) => path !== "/");
}

function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}
