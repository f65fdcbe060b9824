/** One thing that is wrong in the package, worded for the admin who has to fix it. */
export interface Finding {
  /** Which check says so. */
  check: 'well-formed' | 'coverage' | 'elements' | 'references' | 'manifest' | 'conversion' | 'apex';
  /** The file, relative to the directory that was checked. */
  file: string;
  message: string;
}
