import type { ClusterSource, EventRecorder, Logger, StatusPublisher } from "#engine/ports.ts";
import { ManifestDirectory } from "#manifests/directory-source.ts";
import { StatusFiles } from "#manifests/status-files.ts";
import { loggedEvents } from "./silent.ts";

/** Where pods and definitions come from and what is told of them; one per kind of source. */
export interface Cluster extends AsyncDisposable {
  readonly source: ClusterSource;
  readonly publisher: StatusPublisher;
  readonly events: EventRecorder;
}

/** A directory of manifests: the embedded default, without any API. */
export async function openManifests(dir: string, logger: Logger): Promise<Cluster> {
  const source = await ManifestDirectory.open(dir, logger);
  return {
    source,
    publisher: new StatusFiles(dir, logger),
    events: loggedEvents(logger),
    [Symbol.asyncDispose]: () => source[Symbol.asyncDispose](),
  };
}
