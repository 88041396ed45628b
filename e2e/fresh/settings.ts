import { copyFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../cluster/machine/run.ts";

/** Where a fresh system finds what `writeSettings()` writes. */
const share = "/mnt/share";

/** The authorities of this machine's ways to npm's registry and the Go module proxy. */
const authorities = (await npmSetting("cafile")) ?? process.env.NODE_EXTRA_CA_CERTS;

/** The variables of this process that the commands get: the machine's proxies, and what .ci/run sets. */
const passedOn = ["http_proxy", "https_proxy", "no_proxy", "CI", "NO_COLOR", "FORCE_COLOR"];

/** This machine's settings of apt that say how a mirror is reached, in the form of apt.conf. */
export async function aptSettings(): Promise<string> {
  const dump = await run(["apt-config", "dump"]);
  return dump
    .split("\n")
    .filter((line) => /^Acquire::(Check|Retries|https?)/.test(line))
    .map((line) => `${line}\n`)
    .join("");
}

/** Writes apt.conf and npmrc for a fresh system, with this machine's ways to the mirror and the registry. */
export async function writeSettings(directory: string): Promise<void> {
  await writeFile(join(directory, "apt.conf"), await aptSettings());
  const settings: string[] = [];
  for (const key of ["registry", "proxy", "https-proxy", "noproxy"]) {
    const value = await npmSetting(key);
    if (value !== undefined) settings.push(`${key}=${value}`);
  }
  if (authorities !== undefined) {
    await copyFile(authorities, join(directory, "ca.pem"));
    settings.push(`cafile=${share}/ca.pem`);
  }
  await writeFile(join(directory, "npmrc"), settings.map((line) => `${line}\n`).join(""));
}

async function npmSetting(key: string): Promise<string | undefined> {
  const value = (await run(["npm", "config", "get", key])).trim();
  return ["", "null", "undefined"].includes(value) ? undefined : value;
}

/** The environment of a fresh system's commands: as root's login has it, and what is passed on. */
export function environment(): Record<string, string> {
  const names = passedOn.flatMap((name) => [name, name.toUpperCase()]);
  const kept = names.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  return {
    ...Object.fromEntries(kept),
    ...(authorities !== undefined && { SSL_CERT_FILE: `${share}/ca.pem` }),
    PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ...(process.env.PLEXUS_TEST_REPORTS !== undefined && {
      PLEXUS_TEST_REPORTS: `${share}/reports`,
    }),
  };
}
