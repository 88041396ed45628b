/** Something that a delegate made for an attachment, and that a DEL must remove. */
export interface Attached {
  readonly containerId: string;
  readonly ifName: string;
  readonly network: string;
  readonly plugin: string;
  /** Links disappear with their namespace, host state with the machine, leases are files. */
  readonly kind: "link" | "lease" | "host state";
  /** "" for leases, which do not name it. */
  readonly netns: string;
}
