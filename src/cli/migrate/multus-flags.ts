import { keyTranslations } from "./multus-keys.ts";
import { ifOn, isOn, note, onHost, silent, type Translate, unlessEmpty } from "./translation.ts";

const installs = note("not needed: plexusctl install writes Plexus's own executables");

/** Arguments that also matter if Multus does not generate its configuration. */
const always: Readonly<Record<string, Translate>> = {
  "cni-bin-dir": onHost("cniBinDir"),
  "cni-conf-dir": onHost("cniConfDir"),
  "multus-conf-file": silent,
  "multus-bin-file": installs,
  "skip-multus-binary-copy": ifOn(installs),
  "cleanup-config-on-exit": ifOn(
    note(
      "plexusd leaves the node's configuration when it stops, so that an upgrade does not change the node's network; plexusctl uninstall removes it",
    ),
  ),
  "skip-tls-verify": ifOn(
    note("plexusd verifies the API server's certificate with its service account's CA"),
  ),
  "multus-cni-conf-dir": note(
    "Multus 4.3 creates this directory, but reads definitions without spec.config from `confDir`",
  ),
};

/** Arguments that matter only with --multus-conf-file=auto: most become a key of the same meaning. */
const generating: Readonly<Record<string, Translate>> = {
  "cni-version": note("not needed: Plexus answers in the version of the primary CNI"),
  "multus-kubeconfig-file-host": keyTranslations.kubeconfig,
  "multus-master-cni-file-name": keyTranslations.multusMasterCNI,
  "namespace-isolation": (value) => ({ keys: { namespaceIsolation: isOn(value) } }),
  "global-namespaces": unlessEmpty(keyTranslations.globalNamespaces),
  "multus-autoconfig-dir": keyTranslations.multusAutoconfigDir,
  "multus-log-to-stderr": keyTranslations.logToStderr,
  "multus-log-level": unlessEmpty(keyTranslations.logLevel),
  "multus-log-file": keyTranslations.logFile,
  "override-network-name": keyTranslations.overrideNetworkName,
  "skip-config-watch": ifOn(note("plexusd always follows changes of the primary CNI's file")),
  "rename-conf-file": ifOn(
    note(
      "Multus renamed the primary CNI's configuration on every node to NAME.old, where Plexus does not find it: rename it back before Plexus starts there",
    ),
  ),
  "readiness-indicator-file": keyTranslations.readinessindicatorfile,
  "additional-bin-dir": unlessEmpty(keyTranslations.binDir),
  "force-cni-version": keyTranslations.forceCNIVersion,
};

const unused = note("left out: Multus uses it only with --multus-conf-file=auto");

/** Every argument of the thin entry point of Multus 4.3. */
export const flagTranslations: Readonly<Record<string, Translate>> = {
  ...always,
  ...Object.fromEntries(
    Object.entries(generating).map(([name, translate]): [string, Translate] => [
      name,
      (value, rest) => (rest.isGenerated ? translate : unused)(value, rest),
    ]),
  ),
};

/** What the entry point uses without an argument. */
export const flagDefaults = {
  "cni-bin-dir": "/host/opt/cni/bin",
  "cni-conf-dir": "/host/etc/cni/net.d",
  "multus-autoconfig-dir": "/host/etc/cni/net.d",
  "multus-conf-file": "auto",
} as const;

/** Flags that take no value, or one after `=`. */
export const booleanFlags: ReadonlySet<string> = new Set([
  ...["skip-multus-binary-copy", "namespace-isolation", "multus-log-to-stderr"],
  ...["override-network-name", "cleanup-config-on-exit", "skip-config-watch"],
  ...["rename-conf-file", "skip-tls-verify", "force-cni-version"],
]);
