import { eventTypeOf } from "#lib/reasons.ts";
import type { ClusterSource, EventRecorder } from "./cluster.ts";
import type { EngineDeps } from "./engine-deps.ts";
import { type Logger, noLogger } from "./logger.ts";
import { noAgentError, type SandboxHosts } from "./sandbox-hosts.ts";

/** What an engine gets for the things that its process does not have. */
export const emptyPorts = {
  publisher: {
    follow: () => undefined,
    changed: () => undefined,
    shown: async () => undefined,
    detached: async () => undefined,
    failures: () => new Map(),
  },
  events: { record: () => undefined },
  confFiles: {
    list: async () => [],
    read: async () => "",
    kind: async () => "absent",
    sees: () => true,
  },
  multusFiles: {
    containers: async () => [],
    networks: async () => undefined,
    cachedAdd: async () => undefined,
    cachedInterfaces: async () => [],
    cachedAdds: async () => [],
    mayHaveCachedAdd: async () => true,
  },
  deviceInfo: {
    read: async () => undefined,
    copy: async () => false,
    remove: async () => undefined,
  },
  deviceSources: [],
  logger: noLogger,
  metrics: { requestStarted() {}, requestEnded() {}, delegateEnded() {}, assertionBroken() {} },
} satisfies Partial<EngineDeps>;

/** Logs the events of pods where there is no API. */
export function loggedEvents(logger: Logger): EventRecorder {
  return {
    record({ namespace, name }, { reason, message }) {
      const level = eventTypeOf(reason) === "Warning" ? "warn" : "info";
      logger[level]({ podNamespace: namespace, podName: name, reason }, message);
    },
  };
}

/** A source without pods and definitions. */
export const emptySource: ClusterSource = {
  getPod: async () => undefined,
  getPodObject: async () => undefined,
  getNad: async () => undefined,
  namespaceMatches: async () => false,
  notReadyReason: () => undefined,
};

/** Where no agent can connect. */
export const noSandboxHosts: SandboxHosts = {
  isAvailable: () => false,
  onAvailable: () => undefined,
  open: async () => {
    throw noAgentError();
  },
};
