import { isIP } from "node:net";

/** An IP address and a port to listen on. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Address and port of `127.0.0.1:19500` or `[::1]:19500`; undefined when it is neither. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2] ?? "";
  const port = Number(match?.[3]);
  const family = match?.[1] === undefined ? 4 : 6;
  return isIP(host) === family && port <= 65_535 ? { host, port } : undefined;
}

/** Whether {@link parseListenAddress} understands the text. */
export function isListenAddress(text: string): boolean {
  return parseListenAddress(text) !== undefined;
}
