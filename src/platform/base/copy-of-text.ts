/** A copy that does not keep the longer text it was cut from in memory; for characters up to U+00FF. */
export function copyOfText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}
