/** The first descriptor that systemd passes. */
const firstDescriptor = 3;

/**
 * The listening socket that systemd passed to this process (sd_listen_fds(3)), if any.
 * @throws Error when there are several
 */
export function inheritedSocket(
  env: Readonly<Record<string, string | undefined>>,
  pid: number,
): number | undefined {
  // The variables of another process are inherited by mistake.
  if (env.LISTEN_PID !== String(pid)) return undefined;
  if (env.LISTEN_FDS === "1") return firstDescriptor;
  throw new Error(`LISTEN_FDS is ${env.LISTEN_FDS}: plexusd serves one socket`);
}
