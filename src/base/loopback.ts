/** Whether the host of a URL is this machine, so that what is sent in the clear never leaves it. */
export function isLoopback({ hostname }: URL): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.');
}
