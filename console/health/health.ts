/** A part of the service in the health report. */
export interface PartState {
  connected: boolean;
  [fact: string]: unknown;
}

/** The health report. */
export interface Health {
  status: 'ok' | 'unavailable';
  [part: string]: PartState | string;
}
