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

/**
 * Names the target in an error about its temporary file, so that the same failure reads the same. An
 * error of a write to an open file names no file.
 */
export function nameTarget(error: unknown, temporary: string, target: string): unknown {
  if (!(error instanceof Error)) return error;
  const message = error.message.replaceAll(temporary, target);
  error.message = message.includes(target) ? message : `${message} '${target}'`;
  return error;
}
