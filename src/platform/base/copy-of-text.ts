/** The same text on its own: one that was cut out of another keeps all of that in memory. Of characters up to U+00FF. */
export function copyOfText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}
