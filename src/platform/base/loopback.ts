/** Whether the host of a URL is this machine, so that what is sent in the clear never leaves it. */
export function isLoopback({ hostname }: URL): boolean {
  // A URL has any spelling of an IPv4 address as four numbers; `127.0.0.1.example` is a name.
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname);
}
