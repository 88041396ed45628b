/** Whether a name is what a pattern says: a name, or the beginning of names with a final `*`. */
export function matchesPattern(pattern: string, name: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}
