/** Whether an error says that a file, or a directory on its path, does not exist. */
export function isAbsent(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOENT" || code === "ENOTDIR";
}

/** The outcome of an operation on a file; undefined when the file does not exist. */
export async function ifPresent<T>(operation: Promise<T>): Promise<T | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}
