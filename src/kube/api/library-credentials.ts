import type { Agent } from "node:http";
import type { RequestOptions } from "node:https";
import { KubeConfig } from "@kubernetes/client-node";
import type { Credentials } from "./credentials.ts";

/**
 * Credentials as the Kubernetes client library finds them in a kubeconfig file: credential plugins,
 * OpenID Connect, HTTP and SOCKS proxies, basic authentication, impersonation.
 * @throws Error when the library cannot use the file.
 */
export function libraryCredentials(path: string): Credentials {
  let config = load(path);
  let agent: Agent | undefined;
  return {
    server: new URL(config.getCurrentCluster()?.server ?? ""),
    prepare: async () => {
      const options: RequestOptions = {};
      await config.applyToHTTPSOptions(options);
      agent = options.agent as Agent;
      return { agent, headers: headersOf(options) };
    },
    invalidate: () => {
      config = load(path);
    },
    close: () => agent?.destroy(),
  };
}

function load(path: string): KubeConfig {
  const config = new KubeConfig();
  config.loadFromFile(path);
  if (config.getCurrentCluster() === null) {
    throw new Error(`kubeconfig ${path}: the current context or its cluster is missing`);
  }
  return config;
}

function headersOf(options: RequestOptions): Record<string, string> {
  const headers = Object.entries(options.headers ?? {}).map(([key, value]) => [key, String(value)]);
  const basic =
    typeof options.auth === "string"
      ? { authorization: `Basic ${Buffer.from(options.auth).toString("base64")}` }
      : {};
  return { ...Object.fromEntries(headers), ...basic };
}
