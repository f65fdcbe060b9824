/** A port that is in use, in terms of the settings; any other error as it is. */
export function explainTakenPort(error: unknown): unknown {
  const { code, port } = error as { code?: string; port?: number };
  if (code !== 'EADDRINUSE') return error;
  return new Error(`Port ${port} is in use: choose others with PORT and METRICS_PORT.`, { cause: error });
}
