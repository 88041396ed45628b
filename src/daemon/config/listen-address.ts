import { isIP } from "node:net";

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Address and port of `127.0.0.1:19500` or `[::1]:19500`; undefined for other texts. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2] ?? "";
  const port = Number(match?.[3]);
  const family = match?.[1] === undefined ? 4 : 6;
  return isIP(host) === family && port <= 65_535 ? { host, port } : undefined;
}

/** Where metrics are served to authorized callers; without a host on every address of the node. */
export type MetricsAddress = Partial<ListenAddress> & Pick<ListenAddress, "port">;

/** Address and port of `*:19501`, or as {@link parseListenAddress}; undefined for other texts. */
export function parseMetricsAddress(text: string): MetricsAddress | undefined {
  if (!text.startsWith("*:")) return parseListenAddress(text);
  const address = parseListenAddress(`0.0.0.0:${text.slice(2)}`);
  return address === undefined ? undefined : { port: address.port };
}
