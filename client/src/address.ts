/** Whether only this machine has the address. */
export function isLoopback({ hostname }: URL): boolean {
  return /^(?:(?:.+\.)?localhost|\[::1\]|127(?:\.\d{1,3}){3})$/.test(hostname);
}

/** Whether it stands for the machine that it is used on: a service without a configured address names itself so. */
export function isOfEachMachine(url: URL): boolean {
  return isLoopback(url) || ['0.0.0.0', '[::]'].includes(url.hostname);
}
