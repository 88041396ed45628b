/**
 * What the newest section of CHANGELOG.md lists, as plain text without links: Artifact Hub shows the chart's annotation
 * `artifacthub.io/changes`.
 */
export function newestChanges(changelog: string): string[] {
  const [, newest = ""] = changelog.split(/^## /m);
  const items = newest.matchAll(/^- (.*(?:\n {2}.*)*)/gm);
  return [...items].map(([, item = ""]) =>
    item.replaceAll(/\s+/g, " ").replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1"),
  );
}
