/** Set by the bundler. */
export interface BuildInfo {
  readonly version: string;
  readonly commit: string;
}

declare global {
  var PLEXUS_VERSION: string | undefined;
  var PLEXUS_COMMIT: string | undefined;
}

/** Version and commit of this build; `dev` when run from source. */
export function buildInfo(): BuildInfo {
  return {
    version: globalThis.PLEXUS_VERSION ?? "dev",
    commit: globalThis.PLEXUS_COMMIT ?? "dev",
  };
}
