/** A part of an artifact that another project made. */
export interface Component {
  readonly type: "application" | "library" | "data";
  readonly name: string;
  readonly version: string;
  /** Its package URL, by which scanners look for vulnerabilities. */
  readonly purl: string;
  /** An SPDX expression, if its package names one. */
  readonly licence?: string;
  /** The copyright notices and licences, as its package has them. */
  readonly text: string;
}
