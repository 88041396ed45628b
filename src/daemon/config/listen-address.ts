import { isIP } from "node:net";

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Address and port of `127.0.0.1:19500` or `[::1]:19500`; undefined for other texts. */
function parseListenAddress(text: string): ListenAddress | undefined {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2] ?? "";
  const port = Number(match?.[3]);
  const family = match?.[1] === undefined ? 4 : 6;
  return isIP(host) === family && port <= 65_535 ? { host, port } : undefined;
}

/** Address and port of a flag, or undefined for `false`. @throws Error for others */
export function healthAddress(flag: string): ListenAddress | undefined {
  const address = parseListenAddress(flag);
  if (address !== undefined || flag === "false") return address;
  throw new Error(`--http ${JSON.stringify(flag)}: must be false, or an IP address and a port`);
}

/** Where metrics are served to authorized callers; without a host on every address of the node. */
export type MetricsAddress = Partial<ListenAddress> & Pick<ListenAddress, "port">;

/** Address and port of a flag: `*:19501`, or as {@link parseListenAddress}. @throws Error for others */
export function metricsAddress(flag: string): MetricsAddress {
  const address = parseListenAddress(flag.replace(/^\*:/, "0.0.0.0:"));
  const wanted = "must be an IP address and a port, or *:PORT";
  if (address === undefined) throw new Error(`--metrics ${JSON.stringify(flag)}: ${wanted}`);
  return flag.startsWith("*:") ? { port: address.port } : address;
}
