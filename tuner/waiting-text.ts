import { redactSecrets } from '../trials/secrets.ts'

/**
 * Progress text while a server loads.
 * @param reason from the server
 */
export const describeNotReady = (reason: string): string =>
  `the server is not ready yet: ${redactSecrets(reason)}`

/**
 * Progress text of a waiting trial.
 * @param what the server's reason, or the missing resource
 */
export const describeWaiting = (trial: number, what: string, how: 'loading' | 'room'): string =>
  how === 'loading'
    ? `trial ${trial}: ${describeNotReady(what)}`
    : `trial ${trial} waits for ${redactSecrets(what)}`
