import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
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

/**
 * Tells whether certainly nothing is at a path. A process in a container does not see where
 * namespaces are mounted, so none is known to be gone.
 */
export function nothingAt(view: HostView): (netns: string) => boolean {
  const isOnHost = view.sees("/");
  return (netns) => isOnHost && !existsSync(netns) && existsSync(directoryOf(netns));
}

/** Where the namespace would be seen. The directory of a process is gone with it. */
function directoryOf(netns: string): string {
  return netns.startsWith("/proc/") ? "/proc/self" : dirname(netns);
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
