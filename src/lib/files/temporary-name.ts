const pattern = /^\.(.+)\.[0-9a-f]+\.tmp$/s;

/**
 * A name for a file to rename to `target`. It begins with a dot, so that readers ignore it. Create
 * the file exclusively, because the name is probably unique, and not a secret.
 */
export function temporaryName(target: string): string {
  const suffix = Math.floor(Math.random() * 2 ** 48).toString(16);
  return `.${target}.${suffix}.tmp`;
}

/** The target of a temporary name; undefined for any other name. */
export function targetOfTemporaryName(name: string): string | undefined {
  return pattern.exec(name)?.[1];
}
